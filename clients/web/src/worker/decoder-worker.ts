/** The page's worker. It decodes frames and draws them on the canvases that `picture.ts` transfers to it. */

import type { MessageFromWorker, MessageToWorker } from "../media/canvas-renderer.ts";
import { CanvasRenderer, callRenderer } from "../media/canvas-renderer.ts";

const renderers = new Map<number, CanvasRenderer>();

const post = (message: MessageFromWorker): void => self.postMessage(message);

/** What it throws is an event `error` of the worker on the page. A rejection would stay in here, so this is no async function. */
self.onmessage = ({ data: message }: MessageEvent<MessageToWorker>): void => {
  const { id } = message;
  if ("canvas" in message) {
    const { canvas, origin } = message;
    const now = (): number => performance.now() + performance.timeOrigin - origin; // the page's clock
    renderers.set(id, new CanvasRenderer(canvas, now, (session, ...event) => post({ id, session, event })));
    return;
  }
  const renderer = renderers.get(id);
  if (renderer === undefined) throw new Error(`there is no renderer ${id}`);
  if ("close" in message) {
    renderer.end();
    renderers.delete(id);
  } else if ("request" in message) {
    const { call, request } = message;
    renderer[call]().then(
      (answer) => post({ id, request, answer }),
      (error: Error) => post({ id, request, error: error.message }),
    );
  } else {
    callRenderer(renderer, message);
  }
};
post("ready");
