/**
 * Plays one video track on a canvas. `Picture` passes frames to a renderer, in a worker if the browser supports that, and
 * reports the result of each frame. A canvas that was transferred to a worker stays there, also in later sessions.
 */
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";
import type { Answer, Emit, MessageFromWorker, MessageToWorker, PlayerEvent, Question, RendererCall } from "./canvas-renderer.ts";
import type { PlayerOptions } from "./player.ts";

const PATIENCE = 3000;
const SMALL = 128; // up to this size the page shows single pixels

/** A frame that was drawn or dropped: its bytes are gone. */
export type HandledFrame = Omit<Packet, "payload">;

/** What a picture tells. Each frame gets one of the first three calls. */
export interface PictureListener {
  /** The frame was drawn at `now`, with a playout delay of `lead` ms (null: off); it has this size. */
  shown(frame: HandledFrame, now: number, lead: number | null, width: number, height: number): void;
  /** The frame was dropped. */
  skipped(frame: HandledFrame): void;
  /** The frame could not be decoded. */
  failed(frame: HandledFrame, message: string): void;
  /** This frame and all before it are decoded or dropped, so many microseconds after its arrival. */
  dealt(seq: number, heldUs: number): void;
  /** The decoder needs a keyframe. */
  keyframe(): void;
  /** This codec is no longer decoded, until `preferSoftware` or a track with another codec. */
  trouble(codec: string | null, software: boolean, message: string): void;
}

export interface PictureOptions extends PlayerOptions {
  /** The presentation time in ms of the sound heard at `now`, or null without sound. */
  readonly audioTime?: (now: number) => number | null;
}

/** A `CanvasRenderer` somewhere else. */
interface RemoteRenderer {
  call(message: RendererCall, transfer?: Transferable[]): void;
  ask<Asked extends Question>(call: Asked): Promise<Answer<Asked>>;
  /** Frees what the renderer has outside the page. */
  release?(): void;
}

/** What a canvas is drawn by: its renderer, and the picture that it draws now. */
interface Surface {
  picture: Picture | null;
  readonly renderer: RemoteRenderer;
}

let worker: Worker | null = null;
/** Whether the worker that was last asked for has started. */
let start = Promise.resolve(false);
let lastId = 0;
const surfaces = new WeakMap<HTMLCanvasElement, Surface>();
/** Frees the renderer of a canvas that the browser has collected and the application has not released. */
const forgotten = new FinalizationRegistry<RemoteRenderer>((renderer) => renderer.release?.());

/** Where the worker is: its address, a function that makes it, or `false` for none; by default `decoder-worker.js` beside this module. */
export type WorkerSource = string | URL | (() => Worker) | false;

/**
 * Starts the worker for all later pictures, and returns whether there is one. Without OffscreenCanvas or module workers, the
 * page decodes and draws itself. Calls at the same time share one worker: a later one tries its own source if the earlier failed.
 */
export function startWorker(failed: (message: string) => void, source?: WorkerSource): Promise<boolean> {
  start = start.then((started) => started || tryWorker(failed, source));
  return start;
}

async function tryWorker(failed: (message: string) => void, source: WorkerSource | undefined): Promise<boolean> {
  if (source === false || !globalThis.HTMLCanvasElement?.prototype.transferControlToOffscreen) return false;
  let starting: Worker;
  try {
    starting = openWorker(source);
  } catch {
    return false; // a content policy, or another origin
  }
  const ready = await new Promise<boolean>((resolve) => {
    starting.addEventListener("message", () => resolve(true), { once: true });
    starting.addEventListener("error", () => resolve(false), { once: true });
    setTimeout(resolve, PATIENCE, false);
  });
  if (!ready) {
    starting.terminate();
    return false;
  }
  starting.addEventListener("error", (event) => failed(event.message));
  worker = starting;
  return true;
}

function openWorker(source: Exclude<WorkerSource, false> | undefined): Worker {
  if (typeof source === "function") return source();
  // Bundlers look for exactly this expression.
  if (source === undefined) return new Worker(new URL("./decoder-worker.js", import.meta.url), { type: "module" });
  return new Worker(source, { type: "module" });
}

/** The renderer on the page, for browsers without a worker. Its module, which is as large as the worker, is loaded only for them. */
function pageRenderer(canvas: HTMLCanvasElement | OffscreenCanvas, emit: Emit): RemoteRenderer {
  let session = 0;
  const loading = import("./on-page.ts").then(({ CanvasRenderer, callRenderer }) => {
    const renderer = new CanvasRenderer(canvas, () => performance.now(), emit);
    return { renderer, call: (message: RendererCall) => callRenderer(renderer, message) };
  });
  return {
    ask: async <Asked extends Question>(call: Asked) => (await loading).renderer[call]() as Promise<Answer<Asked>>,
    call(message) {
      if (message.call === "begin") session = message.args[0];
      const mine = session;
      loading.then(
        ({ call }) => call(message),
        (error: Error) => {
          if (message.call === "show") emit(mine, "failed", message.args[0].seq, error.message);
        },
      );
    },
  };
}

/** The renderer in the worker. Throws if the canvas cannot be handed over. */
function workerRenderer(worker: Worker, canvas: OffscreenCanvas, emit: Emit): RemoteRenderer {
  const id = ++lastId;
  const requests = new Map<number, { resolve: (answer: never) => void; reject: (error: Error) => void }>();
  let lastRequest = 0;
  const stop = new AbortController();
  const { signal } = stop;
  const refuse = (why: string): void => {
    for (const { reject } of requests.values()) reject(new Error(why));
    requests.clear();
  };
  const post = (message: MessageToWorker, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);
  post({ id, canvas, origin: performance.timeOrigin }, [canvas]);
  // An error of the worker may be that of a request, which it then never answers.
  worker.addEventListener("error", ({ message }) => refuse(message), { signal });
  worker.addEventListener(
    "message",
    ({ data: message }: MessageEvent<MessageFromWorker>) => {
      if (message === "ready" || message.id !== id) return;
      if ("event" in message) {
        emit(message.session, ...message.event);
        return;
      }
      const request = requests.get(message.request);
      requests.delete(message.request);
      if ("answer" in message) request?.resolve(message.answer as never);
      else request?.reject(new Error(message.error));
    },
    { signal },
  );
  return {
    call: (message, transfer) => post({ id, ...message }, transfer),
    ask(call) {
      const request = ++lastRequest;
      post({ id, call, request });
      return new Promise((resolve, reject) => requests.set(request, { resolve, reject }));
    },
    release() {
      stop.abort();
      refuse("the canvas was released");
      post({ id, close: true });
    },
  };
}

/** Frees the renderer of a canvas that was removed from the page. */
export function releaseCanvas(canvas: HTMLCanvasElement): void {
  surfaces.get(canvas)?.renderer.release?.();
  surfaces.delete(canvas);
  forgotten.unregister(canvas);
}

function openSurface(canvas: HTMLCanvasElement): Surface {
  const emit: Emit = (session, ...event) => {
    if (session === surface.picture?.session) surface.picture.onEvent(...event);
  };
  const renderer = openRenderer(canvas, emit);
  const surface: Surface = { picture: null, renderer };
  // One on the page holds its canvas, which the registry would keep with it, and has nothing to free.
  if (renderer.release) forgotten.register(canvas, renderer, canvas);
  return surface;
}

/** In the worker if possible. A canvas with a context stays on the page; in Firefox also one whose pictures are captured. */
function openRenderer(canvas: HTMLCanvasElement, emit: Emit): RemoteRenderer {
  let target: HTMLCanvasElement | OffscreenCanvas = canvas;
  try {
    if (worker !== null) {
      target = canvas.transferControlToOffscreen();
      return workerRenderer(worker, target, emit);
    }
  } catch {
    // the page draws
  }
  return pageRenderer(target, emit);
}

let sessions = 0;

export class Picture {
  /** Its number among all pictures, which the renderer's events carry. */
  readonly session: number = ++sessions;
  #canvas: HTMLCanvasElement;
  #renderer: RemoteRenderer;
  #listener: PictureListener;
  #audioTime: (now: number) => number | null;
  #frames = new Map<number, HandledFrame>();

  constructor(
    canvas: HTMLCanvasElement,
    track: TrackDescription,
    listener: PictureListener,
    { audioTime = () => null, lead = true, software = false }: PictureOptions = {},
  ) {
    this.#canvas = canvas;
    this.#listener = listener;
    this.#audioTime = audioTime;
    let surface = surfaces.get(canvas);
    if (surface === undefined) {
      surface = openSurface(canvas);
      surfaces.set(canvas, surface);
    }
    surface.picture = this;
    this.#renderer = surface.renderer;
    this.#renderer.call({ call: "begin", args: [this.session, track, { lead, software }] });
  }

  get canvas(): HTMLCanvasElement {
    return this.#canvas;
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track: TrackDescription): void {
    this.#renderer.call({ call: "describe", args: [track] });
  }

  /** Draws the frame at its time, unless a newer one replaces it. The frame's payload is empty afterwards. */
  show({ payload, ...frame }: Packet): void {
    const now = performance.now();
    this.#frames.set(frame.seq, frame);
    const { seq, ptsUs, flags, command, meta } = frame;
    // Bytes in `meta` are views of the same message as the payload, whose transfer to the worker would empty them too.
    const bytes = Object.values(meta ?? {}).some((value) => value instanceof Uint8Array) ? payload.slice() : payload;
    const clock = { at: now, audioTime: this.#audioTime(now) };
    // A worker gets the bytes themselves, and the payload is empty here.
    this.#renderer.call({ call: "show", args: [{ seq, ptsUs, flags, command, payload: bytes }, now, clock] }, [bytes.buffer]);
  }

  /** Turns the playout delay on or off. */
  smooth(on: boolean): void {
    this.#renderer.call({ call: "smooth", args: [on] });
  }

  preferSoftware(): void {
    this.#renderer.call({ call: "preferSoftware", args: [] });
  }

  /** The picture on the canvas, as PNG. */
  snapshot(): Promise<Blob> {
    return this.#renderer.ask("snapshot");
  }

  /** The picture as it is drawn now, also in a hidden page. */
  grab(): Promise<ImageBitmap> {
    return this.#renderer.ask("grab");
  }

  /** Stops drawing, also of frames in the decoder; the last picture stays. */
  close(): void {
    const surface = surfaces.get(this.#canvas);
    if (surface?.picture !== this) return;
    surface.picture = null;
    this.#renderer.call({ call: "end", args: [] });
  }

  /** Handles an event of the renderer: the listener's call of the same name, with the frame in place of its `seq`. */
  onEvent(...[name, ...args]: PlayerEvent): void {
    const listener = this.#listener as unknown as { readonly [name: string]: (...args: unknown[]) => void };
    if (name === "shown" || name === "skipped" || name === "failed") {
      const [seq, ...rest] = args as [number, ...unknown[]];
      const frame = this.#frames.get(seq);
      if (frame === undefined) return;
      this.#frames.delete(seq); // each frame gets one event
      if (name === "shown") this.#canvas.classList.toggle("pixelated", Math.max(...(rest.slice(2) as number[])) <= SMALL);
      listener[name]?.(frame, ...rest);
    } else {
      listener[name]?.(...args);
    }
  }
}
