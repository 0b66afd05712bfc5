/**
 * Parts that camera and microphone share: the capture clock, the frame rate limit, and error texts. Only `openStream` uses the
 * browser.
 */
import { median } from "./statistics.js";

const WINDOW = 120;

/**
 * The client's capture clock: microseconds since the first packet of any of its tracks, so that times of different tracks
 * are comparable. The times of one track grow strictly, whatever the devices report.
 */
export class CaptureClock {
  #origin = null;
  #last = new Map();

  /** `pts_us` of a frame that was captured at `at`, in milliseconds of the page's clock. */
  pts(track, at) {
    this.#origin ??= at;
    const pts = Math.max(Math.round((at - this.#origin) * 1000), (this.#last.get(track) ?? -1) + 1);
    this.#last.set(track, pts);
    return pts;
  }

  /** The inverse of `pts`: milliseconds of the page's clock; null before the first packet. */
  at(ptsUs) {
    return this.#origin === null ? null : this.#origin + ptsUs / 1000;
  }
}

/**
 * Measures the time from capturing an input frame to showing the first picture made with it. `input_pts_us` in an output
 * frame's meta names the newest input frame that its step had read. A frame that names the same input again is not a new
 * measurement.
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

  /** {last, p50} in milliseconds over the last 120; null before the first measurement. */
  snapshot() {
    return { last: this.#values.at(-1) ?? null, p50: median(this.#values) };
  }
}

/** Selects, from pictures at the camera's own rate, those that make `rate` a second. */
export class FrameRateLimiter {
  #period;
  #next = -Infinity;

  constructor(rate) {
    this.#period = 1000 / rate;
  }

  /** Whether to use the picture at `now`, in milliseconds. A picture may be early by a quarter of the period. */
  wants(now) {
    if (now < this.#next - this.#period / 4) return false;
    // A picture that is late by more than a period ends a pause; the limiter does not catch up.
    this.#next = (now - this.#next > this.#period ? now : this.#next) + this.#period;
    return true;
  }
}

/** The largest central part of a `width` by `height` picture with the wanted aspect ratio: [x, y, width, height]. */
export function crop(width, height, wantedWidth, wantedHeight) {
  const scale = Math.min(width / wantedWidth, height / wantedHeight);
  const [w, h] = [wantedWidth * scale, wantedHeight * scale];
  return [(width - w) / 2, (height - h) / 2, w, h];
}

/** Why there is no camera or microphone, and what to do. `device` is its name in the text. */
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
 * Asks the user for a device and returns its stream. The stream ends when `signal` aborts, even if the user answers later.
 * `ended` is called if the device disappears.
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
