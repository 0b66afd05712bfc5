/**
 * The page's side of a picture: hands frames to what decodes and draws them, in a worker where the browser can, and says
 * what became of each. A canvas that a worker draws on is the worker's for good, also in the next session.
 */
import { Screen } from "./screen.js";

const PATIENCE = 3000;
const SMALL = 128; // up to this size single pixels are shown

let worker = null;
let lastId = 0;
const screens = new WeakMap(); // by canvas

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
class RemoteScreen {
  #id = ++lastId;
  #asked = new Map();
  #lastAsk = 0;
  #leave = new AbortController();

  constructor(canvas, tell) {
    worker.addEventListener("message", ({ data: { id, said, ask, answer, error } }) => {
      if (id !== this.#id) return;
      if (said) {
        tell(...said);
        return;
      }
      const { resolve, reject } = this.#asked.get(ask);
      this.#asked.delete(ask);
      if (error === undefined) resolve(answer);
      else reject(new Error(error));
    }, { signal: this.#leave.signal });
    const open = canvas.transferControlToOffscreen();
    worker.postMessage({ id: this.#id, open, origin: performance.timeOrigin }, [open]);
  }

  begin(...what) { this.#call("begin", what); }
  describe(...what) { this.#call("describe", what); }
  smooth(...what) { this.#call("smooth", what); }
  preferSoftware() { this.#call("preferSoftware", []); }
  end() { this.#call("end", []); }

  /** The frame's bytes go over, so they are gone here. */
  show(frame, arrived, clock) {
    worker.postMessage({ id: this.#id, call: "show", what: [frame, arrived, clock] }, [frame.payload.buffer]);
  }

  snapshot() {
    const ask = ++this.#lastAsk;
    worker.postMessage({ id: this.#id, call: "snapshot", what: [], ask });
    return new Promise((resolve, reject) => this.#asked.set(ask, { resolve, reject }));
  }

  leave() {
    this.#leave.abort();
    worker.postMessage({ id: this.#id, close: true });
  }

  #call(call, what) {
    worker.postMessage({ id: this.#id, call, what });
  }
}

/** The canvas is shown no more. */
export function forget(canvas) {
  screens.get(canvas)?.screen.leave?.();
  screens.delete(canvas);
}

let sessions = 0;

export class Picture {
  #canvas;
  #screen;
  #listener;
  #heard;
  #frames = new Map();

  /**
   * `listener` is {shown(frame, now, lead), skipped(frame), failed(frame, message), dealt(seq, heldUs), keyframe(),
   * trouble(codec, software, message)}: a frame (without its payload) is shown, skipped or failed, and when shown, at `now`
   * and with `lead` in ms (null: off); `dealt` means it and all before, so many microseconds after it came; `keyframe` that
   * one is needed; `trouble` that nothing more of this codec is decoded until `preferSoftware` or another codec comes.
   * `heard(now)` gives the presentation time in ms that is heard at `now`, or null while there is no sound.
   */
  constructor(canvas, track, listener, { heard = () => null, lead = true, software = false } = {}) {
    this.#canvas = canvas;
    this.#listener = listener;
    this.#heard = heard;
    let place = screens.get(canvas);
    if (place === undefined) {
      place = { picture: null, session: 0 };
      const tell = (session, ...said) => { if (session === place.session) place.picture?.hear(...said); };
      place.screen = worker ? new RemoteScreen(canvas, tell) : new Screen(canvas, () => performance.now(), tell);
      screens.set(canvas, place);
    }
    place.picture = this;
    place.session = ++sessions;
    this.#screen = place.screen;
    this.#screen.begin(place.session, track, { lead, software });
  }

  get canvas() {
    return this.#canvas;
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track) {
    this.#screen.describe(track);
  }

  /** Draws the frame in its turn, unless a newer one takes it. Its payload is gone afterwards. */
  show({ payload, ...frame }) {
    const now = performance.now();
    this.#frames.set(frame.seq, frame);
    const { seq, ptsUs, flags, command } = frame;
    this.#screen.show({ seq, ptsUs, flags, command, payload }, now, { at: now, heard: this.#heard(now) });
  }

  /** Whether pictures wait a little to be seen evenly. */
  smooth(on) {
    this.#screen.smooth(on);
  }

  preferSoftware() {
    this.#screen.preferSoftware();
  }

  /** What is on the canvas, as PNG. */
  snapshot() {
    return this.#screen.snapshot();
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    const place = screens.get(this.#canvas);
    if (place?.picture !== this) return;
    place.picture = null;
    this.#screen.end();
  }

  /** What the screen says. */
  hear(event, ...what) {
    if (!["shown", "skipped", "failed"].includes(event)) {
      this.#listener[event](...what);
      return;
    }
    const [seq, ...rest] = what;
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
