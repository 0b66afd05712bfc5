/** The camera as JPEG frames: one being encoded at a time, and none kept waiting. */
import { Rate, crop, openStream } from "./capture.js";

const QUALITY = 0.8;

/**
 * Shows the camera in the element `preview` and gives `sink` its pictures until `signal` aborts. `sink` has
 * `next()`, the number of the next picture, or null if it is to be skipped, `deliver(number, at, meta, payload)` with
 * `at` the time of capture in milliseconds of the page's clock, and `ended(error)`.
 */
export async function startCamera({ width, height, rate, deviceId }, preview, sink, signal) {
  const video = {
    width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: rate },
    ...(deviceId ? { deviceId: { exact: deviceId } } : { facingMode: "user" }),
  };
  const stream = await openStream({ video }, signal, () => sink.ended(new Error("it was disconnected.")));
  signal.addEventListener("abort", () => { preview.srcObject = null; });
  preview.srcObject = stream;
  await preview.play();
  signal.throwIfAborted();

  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { alpha: false });
  const wanted = new Rate(rate);
  let encoding = false;

  async function take(at) {
    const number = sink.next(encoding);
    if (number === null) return;
    encoding = true;
    try {
      context.drawImage(preview, ...crop(preview.videoWidth, preview.videoHeight, width, height), 0, 0, width, height);
      const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: QUALITY });
      const payload = new Uint8Array(await blob.arrayBuffer());
      if (!signal.aborted) sink.deliver(number, at, { codec: "jpeg" }, payload);
    } catch (error) {
      if (!signal.aborted) sink.ended(error);
    }
    encoding = false;
  }

  eachFrame(preview, signal, (now, at) => {
    if (wanted.wants(now)) take(at);
  });
  return stream;
}

/** Calls `call(now, at)` for each picture of the element; `at` is when it was captured, as far as the browser knows. */
function eachFrame(element, signal, call) {
  const again = element.requestVideoFrameCallback
    ? () => element.requestVideoFrameCallback(step)
    : () => requestAnimationFrame(step); // Firefox before 132
  function step(now, { captureTime = now } = {}) {
    if (signal.aborted) return;
    again();
    if (element.videoWidth > 0) call(now, Math.min(captureTime, now));
  }
  again();
}
