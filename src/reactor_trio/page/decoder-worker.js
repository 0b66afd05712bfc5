/** The page's worker: decodes and draws on the canvases that `picture.js` hands over, as it says. */
import { Screen } from "./screen.js";

const screens = new Map();

/** {open: canvas, origin} begins with a canvas, {close: true} ends with it, else {call, what, ask} is for its screen. */
self.onmessage = async ({ data: { id, open, origin, close, call, what, ask } }) => {
  if (open) {
    const now = () => performance.now() + performance.timeOrigin - origin; // as the page has it
    screens.set(id, new Screen(open, now, (...said) => self.postMessage({ id, said })));
    return;
  }
  const screen = screens.get(id);
  if (close) {
    screen.end();
    screens.delete(id);
    return;
  }
  try {
    const answer = await screen[call](...what);
    if (ask) self.postMessage({ id, ask, answer });
  } catch (error) {
    if (!ask) throw error;
    self.postMessage({ id, ask, error: error.message });
  }
};
self.postMessage("ready");
