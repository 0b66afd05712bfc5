/**
 * The page's side of a picture: hands frames to what decodes and draws them, in a worker where the browser can, and says
 * what became of each. A canvas that a worker draws on is the worker's for good, also in the next session.
 */
import { CanvasRenderer } from "./canvas-renderer.js";

const PATIENCE = 3000;
const SMALL = 128; // up to this size single pixels are shown

let worker = null;
let lastId = 0;
const surfaces = new WeakMap(); // by canvas

/** Starts the worker for all pictures to come; without one, for want of OffscreenCanvas or of module workers, the page does its work. */
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

/** A screen in the worker. */
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

  /** The frame's bytes go over, so they are gone here. */
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

/** The canvas is shown no more. */
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
   * `listener` is {shown(frame, now, lead), skipped(frame), failed(frame, message), dealt(seq, heldUs), keyframe(),
   * trouble(codec, software, message)}: a frame (without its payload) is shown, skipped or failed, and when shown, at `now`
   * and with `lead` in ms (null: off); `dealt` means it and all before, so many microseconds after it came; `keyframe` that
   * one is needed; `trouble` that nothing more of this codec is decoded until `preferSoftware` or another codec comes.
   * `heard(now)` gives the presentation time in ms that is heard at `now`, or null while there is no sound.
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

  /** Draws the frame in its turn, unless a newer one takes it. Its payload is gone afterwards. */
  show({ payload, ...frame }) {
    const now = performance.now();
    this.#frames.set(frame.seq, frame);
    const { seq, ptsUs, flags, command } = frame;
    this.#renderer.show({ seq, ptsUs, flags, command, payload }, now, { at: now, audioTime: this.#audioTime(now) });
  }

  /** Whether pictures wait a little to be seen evenly. */
  smooth(on) {
    this.#renderer.smooth(on);
  }

  preferSoftware() {
    this.#renderer.preferSoftware();
  }

  /** What is on the canvas, as PNG. */
  snapshot() {
    return this.#renderer.snapshot();
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    const surface = surfaces.get(this.#canvas);
    if (surface?.picture !== this) return;
    surface.picture = null;
    this.#renderer.end();
  }

  /** What the screen says. */
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
