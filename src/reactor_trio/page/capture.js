/**
 * What camera and microphone share: one clock, a rate, and words for what goes wrong. Pure, but for `openStream`.
 */
import { median } from "./statistics.js";

const WINDOW = 120;

/**
 * The client's capture clock: microseconds since the first packet of any of its tracks, so that the tracks of one client
 * can be set against each other. Times of one track grow strictly, whatever the devices say.
 */
export class CaptureClock {
  #origin = null;
  #last = new Map();

  /** `pts_us` of what was captured at `at`, in milliseconds of the page's clock. */
  pts(track, at) {
    this.#origin ??= at;
    const pts = Math.max(Math.round((at - this.#origin) * 1000), (this.#last.get(track) ?? -1) + 1);
    this.#last.set(track, pts);
    return pts;
  }

  /** When that was, in milliseconds of the page's clock; null before the first packet. */
  at(ptsUs) {
    return this.#origin === null ? null : this.#origin + ptsUs / 1000;
  }
}

/**
 * Time from capturing to showing the first picture that was made with it: output frames name the newest input frame that
 * their step had read as `input_pts_us` in their meta. A frame that names the same one again is no new measurement.
 */
export class CaptureLatency {
  #clock;
  #newest = -1;
  #values = [];

  constructor(clock) {
    this.#clock = clock;
  }

  /** A frame of the main track was drawn, `now` in milliseconds. */
  shown({ meta }, now) {
    const pts = meta?.input_pts_us;
    if (!Number.isSafeInteger(pts) || pts <= this.#newest) return;
    const at = this.#clock.at(pts);
    if (at === null) return;
    this.#newest = pts;
    this.#values.push(now - at);
    if (this.#values.length > WINDOW) this.#values.shift();
  }

  /** {last, p50} in milliseconds, null where there is nothing yet; of the last 120. */
  snapshot() {
    return { last: this.#values.at(-1) ?? null, p50: median(this.#values) };
  }
}

/** Chooses, from pictures that come at the camera's own rate, those that make `rate` a second. */
export class FrameRateLimiter {
  #period;
  #next = -Infinity;

  constructor(rate) {
    this.#period = 1000 / rate;
  }

  /** Whether a picture of time `now`, in milliseconds, is wanted. A camera a little early is not asked to wait a turn. */
  wants(now) {
    if (now < this.#next - this.#period / 4) return false;
    // Late by more than a turn is a pause: what it left out is not made up.
    this.#next = (now - this.#next > this.#period ? now : this.#next) + this.#period;
    return true;
  }
}

/** The largest part of a `width` by `height` picture that has the shape of the wanted one: [x, y, width, height]. */
export function crop(width, height, wantedWidth, wantedHeight) {
  const scale = Math.min(width / wantedWidth, height / wantedHeight);
  const [w, h] = [wantedWidth * scale, wantedHeight * scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
}

/** Why there is no camera or microphone, and what to do. `device` is the word for it. */
export function describeRefusal(device, error, { isSecureContext = true } = {}) {
  switch (error.name) {
    case "NoMediaDevices":
      return isSecureContext
        ? `This browser gives pages no ${device}.`
        : `Browsers give the ${device} only to pages of https or of localhost. Open this page under such an address.`;
    case "NotAllowedError":
    case "SecurityError":
      return `The browser refused the ${device}. Allow it in the site settings beside the address, then start again.`;
    case "NotFoundError":
    case "OverconstrainedError":
      return `No ${device} was found.`;
    case "NotReadableError":
    case "AbortError":
      return `The ${device} could not be opened. Another program may be using it.`;
    default:
      return `The ${device} failed: ${error.message}`;
  }
}

/**
 * Ask the user for a device. Its stream ends when `signal` aborts, also while the question is still open; `ended` is
 * called when the device goes away by itself.
 */
export async function openStream(constraints, signal, ended) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw Object.assign(new Error("no media devices"), { name: "NoMediaDevices" });
  }
  const stream = await navigator.mediaDevices.getUserMedia(constraints);
  const stop = () => stream.getTracks().forEach((track) => track.stop());
  if (signal.aborted) stop();
  signal.throwIfAborted();
  signal.addEventListener("abort", stop);
  for (const track of stream.getTracks()) track.addEventListener("ended", ended, { signal });
  return stream;
}
