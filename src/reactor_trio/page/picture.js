/**
 * Plays one video track on a canvas. `Picture` passes frames to a renderer, in a worker if the browser supports that, and
 * reports the result of each frame. A canvas that was transferred to a worker stays there, also in later sessions.
 */
import { CanvasRenderer } from "./canvas-renderer.js";

const PATIENCE = 3000;
const SMALL = 128; // up to this size the page shows single pixels

let worker = null;
let lastId = 0;
const surfaces = new WeakMap(); // by canvas

/** Starts the worker for all later pictures. Without OffscreenCanvas or module workers, the page decodes and draws itself. */
export async function startWorker(failed) {
  if (!HTMLCanvasElement.prototype.transferControlToOffscreen) return;
  const starting = new Worker(new URL("./decoder-worker.js", import.meta.url), { type: "module" });
  const ready = await new Promise((resolve) => {
    starting.addEventListener("message", () => resolve(true), { once: true });
    starting.addEventListener("error", () => resolve(false), { once: true });
    setTimeout(resolve, PATIENCE, false);
  });
  if (!ready) {
    starting.terminate();
    return;
  }
  starting.addEventListener("error", (event) => failed(event.message));
  worker = starting;
}

/** A `CanvasRenderer` in the worker, with the same methods. */
class WorkerRenderer {
  #id = ++lastId;
  #requests = new Map();
  #lastRequest = 0;
  #stop = new AbortController();

  constructor(canvas, tell) {
    worker.addEventListener("message", ({ data: { id, event, request, answer, error } }) => {
      if (id !== this.#id) return;
      if (event) {
        tell(...event);
        return;
      }
      const { resolve, reject } = this.#requests.get(request);
      this.#requests.delete(request);
      if (error === undefined) resolve(answer);
      else reject(new Error(error));
    }, { signal: this.#stop.signal });
    const offscreen = canvas.transferControlToOffscreen();
    worker.postMessage({ id: this.#id, canvas: offscreen, origin: performance.timeOrigin }, [offscreen]);
  }

  begin(...args) { this.#call("begin", args); }
  describe(...args) { this.#call("describe", args); }
  smooth(...args) { this.#call("smooth", args); }
  preferSoftware() { this.#call("preferSoftware", []); }
  end() { this.#call("end", []); }

  /** Transfers the frame's bytes to the worker, which empties the payload here. */
  show(frame, arrived, clock) {
    worker.postMessage({ id: this.#id, call: "show", args: [frame, arrived, clock] }, [frame.payload.buffer]);
  }

  snapshot() {
    const request = ++this.#lastRequest;
    worker.postMessage({ id: this.#id, call: "snapshot", args: [], request });
    return new Promise((resolve, reject) => this.#requests.set(request, { resolve, reject }));
  }

  release() {
    this.#stop.abort();
    worker.postMessage({ id: this.#id, close: true });
  }

  #call(call, args) {
    worker.postMessage({ id: this.#id, call, args });
  }
}

/** Frees the renderer of a canvas that was removed from the page. */
export function releaseCanvas(canvas) {
  surfaces.get(canvas)?.renderer.release?.();
  surfaces.delete(canvas);
}

let sessions = 0;

export class Picture {
  #canvas;
  #renderer;
  #listener;
  #audioTime;
  #frames = new Map();

  /**
   * `listener` has these methods. Each frame (without its payload) gets one of the first three calls.
   *
   *   shown(frame, now, lead)    the frame was drawn at `now`, with a playout delay of `lead` ms (null: off)
   *   skipped(frame)             the frame was dropped
   *   failed(frame, message)     the frame could not be decoded
   *   dealt(seq, heldUs)         this frame and all before it are decoded or dropped, so many microseconds after its arrival
   *   keyframe()                 the decoder needs a keyframe
   *   trouble(codec, software, message)   this codec is no longer decoded, until `preferSoftware` or a track with another codec
   *
   * `audioTime(now)` returns the presentation time in ms of the sound heard at `now`, or null without sound. `lead` and
   * `software` are the first values for `smooth` and `preferSoftware`.
   */
  constructor(canvas, track, listener, { audioTime = () => null, lead = true, software = false } = {}) {
    this.#canvas = canvas;
    this.#listener = listener;
    this.#audioTime = audioTime;
    let surface = surfaces.get(canvas);
    if (surface === undefined) {
      surface = { picture: null, session: 0 };
      const tell = (session, ...event) => { if (session === surface.session) surface.picture?.onEvent(...event); };
      surface.renderer = worker ? new WorkerRenderer(canvas, tell) : new CanvasRenderer(canvas, () => performance.now(), tell);
      surfaces.set(canvas, surface);
    }
    surface.picture = this;
    surface.session = ++sessions;
    this.#renderer = surface.renderer;
    this.#renderer.begin(surface.session, track, { lead, software });
  }

  get canvas() {
    return this.#canvas;
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track) {
    this.#renderer.describe(track);
  }

  /** Draws the frame at its time, unless a newer one replaces it. The frame's payload is empty afterwards. */
  show({ payload, ...frame }) {
    const now = performance.now();
    this.#frames.set(frame.seq, frame);
    const { seq, ptsUs, flags, command } = frame;
    this.#renderer.show({ seq, ptsUs, flags, command, payload }, now, { at: now, audioTime: this.#audioTime(now) });
  }

  /** Turns the playout delay on or off. */
  smooth(on) {
    this.#renderer.smooth(on);
  }

  preferSoftware() {
    this.#renderer.preferSoftware();
  }

  /** The picture on the canvas, as PNG. */
  snapshot() {
    return this.#renderer.snapshot();
  }

  /** Stops drawing, also of frames in the decoder; the last picture stays. */
  close() {
    const surface = surfaces.get(this.#canvas);
    if (surface?.picture !== this) return;
    surface.picture = null;
    this.#renderer.end();
  }

  /** Handles an event of the renderer. */
  onEvent(event, ...args) {
    if (!["shown", "skipped", "failed"].includes(event)) {
      this.#listener[event](...args);
      return;
    }
    const [seq, ...rest] = args;
    const frame = this.#frames.get(seq);
    if (frame === undefined) return;
    this.#frames.delete(seq);
    if (event === "shown") {
      const [now, lead, ...size] = rest;
      this.#canvas.classList.toggle("pixelated", Math.max(...size) <= SMALL);
      this.#listener.shown(frame, now, lead);
    } else {
      this.#listener[event](frame, ...rest);
    }
  }
}
