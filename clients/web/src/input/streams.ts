/** Parts that camera and microphone share. Only `takeStream` uses the browser. */

/** Selects, from pictures at the camera's own rate, those that make `rate` a second. */
export class FrameRateLimiter {
  #period: number;
  #next = -Infinity;

  constructor(rate: number) {
    this.#period = 1000 / rate;
  }

  /** Whether to use the picture at `now`, in milliseconds. A picture may be early by a quarter of the period. */
  wants(now: number): boolean {
    if (now < this.#next - this.#period / 4) return false;
    // A picture that is late by more than a period ends a pause; the limiter does not catch up.
    this.#next = (now - this.#next > this.#period ? now : this.#next) + this.#period;
    return true;
  }
}

/** The largest central part of a `width` by `height` picture with the wanted aspect ratio: [x, y, width, height]. */
export function crop(
  width: number,
  height: number,
  wantedWidth: number,
  wantedHeight: number,
): [x: number, y: number, width: number, height: number] {
  const scale = Math.min(width / wantedWidth, height / wantedHeight);
  const [w, h] = [wantedWidth * scale, wantedHeight * scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
}

/** Takes the stream that the application gives, or else asks the user for a device. `ended` is called if it ends by itself. */
export async function takeStream(
  given: MediaStream | null,
  constraints: MediaStreamConstraints,
  signal: AbortSignal,
  ended: (error: Error) => void,
): Promise<MediaStream> {
  const stream = given ?? (await openStream(constraints, signal));
  const tell = (): void => ended(Object.assign(new Error("it has ended"), { name: "TrackEnded" }));
  for (const track of stream.getTracks()) {
    track.addEventListener("ended", tell, { signal });
    if (track.readyState === "ended") tell();
  }
  signal.throwIfAborted();
  return stream;
}

/** Asks the user for a device and returns its stream. The stream ends when `signal` aborts, even if the user answers later. */
async function openStream(constraints: MediaStreamConstraints, signal: AbortSignal): Promise<MediaStream> {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw Object.assign(new Error("no media devices"), { name: "NoMediaDevices" });
  }
  const stream = await navigator.mediaDevices.getUserMedia(constraints);
  const stop = (): void => stream.getTracks().forEach((track) => track.stop());
  if (signal.aborted) stop();
  signal.throwIfAborted();
  signal.addEventListener("abort", stop);
  return stream;
}
