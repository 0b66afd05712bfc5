/** The camera as a stream of the browser's video encoder, or as JPEG pictures. No picture waits for the encoder. */

import type { InputSink } from "./capture.ts";
import { chooseEncoder, StreamEncoder } from "./stream-encoder.ts";
import { crop, FrameRateLimiter, takeStream } from "./streams.ts";

const QUALITY = 0.8;

/** What to ask of the camera. */
export interface CameraOptions {
  readonly width: number;
  readonly height: number;
  /** Pictures a second. */
  readonly rate: number;
  /** "" for the user's default. */
  readonly deviceId: string;
  /** The codecs that the server accepts, best first. */
  readonly codecs: readonly string[];
  /** A stream to send instead of the camera's. */
  readonly stream?: MediaStream | null;
}

/**
 * Shows the camera in the element `preview` and delivers its pictures to `sink` until `signal` aborts. Without a working
 * encoder for any of the codecs the pictures are JPEG.
 */
export async function startCamera(
  { width, height, rate, deviceId, codecs, stream: given = null }: CameraOptions,
  preview: HTMLVideoElement,
  sink: InputSink,
  signal: AbortSignal,
): Promise<MediaStream> {
  const video = {
    width: { ideal: width },
    height: { ideal: height },
    frameRate: { ideal: rate },
    ...(deviceId ? { deviceId: { exact: deviceId } } : { facingMode: "user" }),
  };
  const camera = await takeStream(given, { video }, signal, sink.ended);
  signal.addEventListener("abort", () => {
    preview.srcObject = null;
  });
  preview.srcObject = camera;
  await preview.play();
  signal.throwIfAborted();

  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { alpha: false }) as OffscreenCanvasRenderingContext2D;
  const wanted = new FrameRateLimiter(rate);
  const draw = (): void => context.drawImage(preview, ...crop(preview.videoWidth, preview.videoHeight, width, height), 0, 0, width, height);
  let encoding = false;
  let stream: StreamEncoder | null = null;
  signal.addEventListener("abort", () => stream?.close());

  /** Opens an encoder for the first supported codec of `left`. If that encoder fails, tries the codecs after it. */
  async function openEncoder(left: readonly string[]): Promise<void> {
    const chosen = await chooseEncoder(left, width, height, rate);
    if (signal.aborted || chosen === null) return;
    const deliver: InputSink["deliver"] = (...picture) => {
      if (!signal.aborted) sink.deliver(...picture);
    };
    const next = (): void => {
      stream = null;
      void openEncoder(left.slice(left.indexOf(chosen.codec) + 1));
    };
    stream = new StreamEncoder(chosen, deliver, next);
  }

  async function take(now: number, at: number): Promise<void> {
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
    if (wanted.wants(now)) void take(now, at);
  });
  return camera;
}

/** Calls `call(now, at)` for each picture of the element; `at` is its capture time if the browser knows it, else `now`. */
function eachFrame(element: HTMLVideoElement, signal: AbortSignal, call: (now: number, at: number) => void): void {
  const again = element.requestVideoFrameCallback ? () => element.requestVideoFrameCallback(step) : () => requestAnimationFrame(step); // Firefox before 132
  function step(now: number, { captureTime = now }: { readonly captureTime?: number } = {}): void {
    if (signal.aborted) return;
    again();
    if (element.videoWidth > 0) call(now, Math.min(captureTime, now));
  }
  again();
}
