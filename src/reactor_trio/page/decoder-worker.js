/** The page's worker: decodes and draws on the canvases that `picture.js` hands over, as it says. */
import { CanvasRenderer } from "./canvas-renderer.js";

const renderers = new Map();

/** {canvas, origin} begins with a canvas, {close: true} ends with it, else {call, args, request} is for its renderer. */
self.onmessage = async ({ data: { id, canvas, origin, close, call, args, request } }) => {
  if (canvas) {
    const now = () => performance.now() + performance.timeOrigin - origin; // as the page has it
    renderers.set(id, new CanvasRenderer(canvas, now, (...event) => self.postMessage({ id, event })));
    return;
  }
  const renderer = renderers.get(id);
  if (close) {
    renderer.end();
    renderers.delete(id);
    return;
  }
  try {
    const answer = await renderer[call](...args);
    if (request) self.postMessage({ id, request, answer });
  } catch (error) {
    if (!request) throw error;
    self.postMessage({ id, request, error: error.message });
  }
};
self.postMessage("ready");
