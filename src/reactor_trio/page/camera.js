/** The camera as a stream of the browser's video encoder, or as JPEG pictures. No picture waits for the encoder. */
import { FrameRateLimiter, crop, openStream } from "./capture.js";
import { StreamEncoder, chooseEncoder } from "./stream-encoder.js";

const QUALITY = 0.8;

/**
 * Shows the camera in the element `preview` and delivers its pictures to `sink` until `signal` aborts. `sink` has
 *
 *   next(busy)          returns the number of the next picture, or null to skip it
 *   takeKeyframe()      returns whether the server has requested a keyframe since the last call
 *   deliver(number, at, meta, payload, key)   `at` is the capture time in milliseconds of the page's clock
 *   ended(error)        the camera failed
 *
 * `codecs` are those that the server accepts, best first. Without a working encoder for any of them the pictures are JPEG.
 */
export async function startCamera({ width, height, rate, deviceId, codecs }, preview, sink, signal) {
  const video = {
    width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: rate },
    ...(deviceId ? { deviceId: { exact: deviceId } } : { facingMode: "user" }),
  };
  const camera = await openStream({ video }, signal, () => sink.ended(new Error("it was disconnected.")));
  signal.addEventListener("abort", () => { preview.srcObject = null; });
  preview.srcObject = camera;
  await preview.play();
  signal.throwIfAborted();

  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { alpha: false });
  const wanted = new FrameRateLimiter(rate);
  const draw = () => context.drawImage(
    preview, ...crop(preview.videoWidth, preview.videoHeight, width, height), 0, 0, width, height);
  let encoding = false;
  let stream = null;
  signal.addEventListener("abort", () => stream?.close());

  /** Opens an encoder for the first supported codec of `left`. If that encoder fails, tries the codecs after it. */
  async function openEncoder(left) {
    const chosen = await chooseEncoder(left, width, height, rate);
    if (signal.aborted) return;
    const deliver = (...picture) => { if (!signal.aborted) sink.deliver(...picture); };
    const next = () => { stream = null; openEncoder(left.slice(left.indexOf(chosen.codec) + 1)); };
    stream = chosen && new StreamEncoder(chosen, deliver, next);
  }

  async function take(now, at) {
    const number = sink.next(stream ? stream.busy(now) : encoding);
    if (number === null) return;
    if (stream) {
      draw();
      stream.encode(canvas, number, at, sink.takeKeyframe());
      return;
    }
    encoding = true;
    try {
      draw();
      const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: QUALITY });
      const payload = new Uint8Array(await blob.arrayBuffer());
      if (!signal.aborted) sink.deliver(number, at, { codec: "jpeg" }, payload, true);
    } catch (error) {
      if (!signal.aborted) sink.ended(error);
    }
    encoding = false;
  }

  await openEncoder(codecs);
  eachFrame(preview, signal, (now, at) => {
    if (wanted.wants(now)) take(now, at);
  });
  return camera;
}

/** Calls `call(now, at)` for each picture of the element; `at` is its capture time if the browser knows it, else `now`. */
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
