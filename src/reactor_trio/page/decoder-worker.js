/** The page's worker. It decodes frames and draws them on the canvases that `picture.js` transfers to it. */
import { CanvasRenderer } from "./canvas-renderer.js";

const renderers = new Map();

/** {canvas, origin} opens the renderer `id`, {close: true} closes it, {call, args, request} calls its method `call`. */
self.onmessage = async ({ data: { id, canvas, origin, close, call, args, request } }) => {
  if (canvas) {
    const now = () => performance.now() + performance.timeOrigin - origin; // the page's clock
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
