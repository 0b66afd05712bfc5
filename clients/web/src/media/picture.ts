/**
 * Plays one video track on a canvas. `Picture` passes frames to a renderer, in a worker if the browser supports that, and
 * reports the result of each frame. A canvas that was transferred to a worker stays there, also in later sessions.
 */
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";
import type { CanvasRenderer, Emit, MessageFromWorker, MessageToWorker, PlayerEvent, Renderer, RendererCall } from "./canvas-renderer.ts";
import type { HeardTime, PlayerFrame, PlayerOptions } from "./player.ts";

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

/** What a canvas is drawn by: its renderer, and the picture and session that it draws now. */
interface Surface {
  picture: Picture | null;
  session: number;
  readonly renderer: Renderer;
}

let worker: Worker | null = null;
/** Whether the worker that was last asked for has started. */
let start = Promise.resolve(false);
let lastId = 0;
const surfaces = new WeakMap<HTMLCanvasElement, Surface>();
/** Frees the renderer of a canvas that the browser has collected and the application has not released. */
const forgotten = new FinalizationRegistry<Renderer>((renderer) => renderer.release?.());

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

/** A `CanvasRenderer` somewhere else: its methods send calls there. */
abstract class RemoteRenderer implements Renderer {
  protected abstract call(call: RendererCall, transfer?: Transferable[]): void;
  abstract snapshot(): Promise<Blob>;

  begin(...args: Parameters<Renderer["begin"]>): void {
    this.call({ call: "begin", args });
  }
  describe(...args: Parameters<Renderer["describe"]>): void {
    this.call({ call: "describe", args });
  }
  smooth(...args: Parameters<Renderer["smooth"]>): void {
    this.call({ call: "smooth", args });
  }
  preferSoftware(): void {
    this.call({ call: "preferSoftware", args: [] });
  }
  end(): void {
    this.call({ call: "end", args: [] });
  }

  /** Hands the frame's bytes over: a worker empties the payload here. */
  show(frame: PlayerFrame, arrived: number, clock: HeardTime): void {
    this.call({ call: "show", args: [frame, arrived, clock] }, [frame.payload.buffer]);
  }
}

/** The renderer on the page, for browsers without a worker. Its module, which is as large as the worker, is loaded only for them. */
class PageRenderer extends RemoteRenderer {
  #loading: Promise<{ renderer: CanvasRenderer; call: (call: RendererCall) => void }>;
  #emit: Emit;
  #session = 0;

  constructor(canvas: HTMLCanvasElement | OffscreenCanvas, emit: Emit) {
    super();
    this.#emit = emit;
    this.#loading = import("./on-page.ts").then(({ CanvasRenderer, callRenderer }) => {
      const renderer = new CanvasRenderer(canvas, () => performance.now(), emit);
      return { renderer, call: (call) => callRenderer(renderer, call) };
    });
  }

  async snapshot(): Promise<Blob> {
    return (await this.#loading).renderer.snapshot();
  }

  protected override call(message: RendererCall): void {
    if (message.call === "begin") this.#session = message.args[0];
    const session = this.#session;
    this.#loading.then(
      ({ call }) => call(message),
      (error: Error) => {
        if (message.call === "show") this.#emit(session, "failed", message.args[0].seq, error.message);
      },
    );
  }
}

/** The renderer in the worker. */
class WorkerRenderer extends RemoteRenderer {
  #worker: Worker;
  #id = ++lastId;
  #requests = new Map<number, { resolve: (answer: Blob) => void; reject: (error: Error) => void }>();
  #lastRequest = 0;
  #stop = new AbortController();

  /** Throws if the canvas cannot be handed over. */
  constructor(worker: Worker, canvas: OffscreenCanvas, emit: Emit) {
    super();
    this.#worker = worker;
    this.#post({ id: this.#id, canvas, origin: performance.timeOrigin }, [canvas]);
    // An error of the worker may be that of a request, which it then never answers.
    worker.addEventListener("error", ({ message }) => this.#refuse(message), { signal: this.#stop.signal });
    worker.addEventListener(
      "message",
      ({ data: message }: MessageEvent<MessageFromWorker>) => {
        if (message === "ready" || message.id !== this.#id) return;
        if ("event" in message) {
          emit(message.session, ...message.event);
          return;
        }
        const request = this.#requests.get(message.request);
        this.#requests.delete(message.request);
        if ("answer" in message) request?.resolve(message.answer);
        else request?.reject(new Error(message.error));
      },
      { signal: this.#stop.signal },
    );
  }

  snapshot(): Promise<Blob> {
    const request = ++this.#lastRequest;
    this.#post({ id: this.#id, call: "snapshot", request });
    return new Promise((resolve, reject) => this.#requests.set(request, { resolve, reject }));
  }

  release(): void {
    this.#stop.abort();
    this.#refuse("the canvas was released");
    this.#post({ id: this.#id, close: true });
  }

  /** Rejects all that was asked for. */
  #refuse(why: string): void {
    for (const { reject } of this.#requests.values()) reject(new Error(why));
    this.#requests.clear();
  }

  protected override call(call: RendererCall, transfer: Transferable[] = []): void {
    this.#post({ id: this.#id, ...call }, transfer);
  }

  #post(message: MessageToWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }
}

/** Frees the renderer of a canvas that was removed from the page. */
export function releaseCanvas(canvas: HTMLCanvasElement): void {
  surfaces.get(canvas)?.renderer.release?.();
  surfaces.delete(canvas);
  forgotten.unregister(canvas);
}

function openSurface(canvas: HTMLCanvasElement): Surface {
  const emit: Emit = (session, ...event) => {
    if (session === surface.session) surface.picture?.onEvent(...event);
  };
  const renderer = openRenderer(canvas, emit);
  const surface: Surface = { picture: null, session: 0, renderer };
  forgotten.register(canvas, renderer, canvas);
  return surface;
}

/** In the worker if possible. A canvas with a context stays on the page; in Firefox also one whose pictures are captured. */
function openRenderer(canvas: HTMLCanvasElement, emit: Emit): Renderer {
  let target: HTMLCanvasElement | OffscreenCanvas = canvas;
  try {
    if (worker !== null) {
      target = canvas.transferControlToOffscreen();
      return new WorkerRenderer(worker, target, emit);
    }
  } catch {
    // the page draws
  }
  return new PageRenderer(target, emit);
}

let sessions = 0;

export class Picture {
  #canvas: HTMLCanvasElement;
  #renderer: Renderer;
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
    surface.session = ++sessions;
    this.#renderer = surface.renderer;
    this.#renderer.begin(surface.session, track, { lead, software });
  }

  get canvas(): HTMLCanvasElement {
    return this.#canvas;
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track: TrackDescription): void {
    this.#renderer.describe(track);
  }

  /** Draws the frame at its time, unless a newer one replaces it. The frame's payload is empty afterwards. */
  show({ payload, ...frame }: Packet): void {
    const now = performance.now();
    this.#frames.set(frame.seq, frame);
    const { seq, ptsUs, flags, command, meta } = frame;
    // Bytes in `meta` are views of the same message as the payload, whose transfer to the worker would empty them too.
    const bytes = Object.values(meta ?? {}).some((value) => value instanceof Uint8Array) ? payload.slice() : payload;
    this.#renderer.show({ seq, ptsUs, flags, command, payload: bytes }, now, { at: now, audioTime: this.#audioTime(now) });
  }

  /** Turns the playout delay on or off. */
  smooth(on: boolean): void {
    this.#renderer.smooth(on);
  }

  preferSoftware(): void {
    this.#renderer.preferSoftware();
  }

  /** The picture on the canvas, as PNG. */
  snapshot(): Promise<Blob> {
    return this.#renderer.snapshot();
  }

  /** Stops drawing, also of frames in the decoder; the last picture stays. */
  close(): void {
    const surface = surfaces.get(this.#canvas);
    if (surface?.picture !== this) return;
    surface.picture = null;
    this.#renderer.end();
  }

  /** Handles an event of the renderer. */
  onEvent(...event: PlayerEvent): void {
    switch (event[0]) {
      case "shown": {
        const [, seq, now, lead, width, height] = event;
        const frame = this.#take(seq);
        if (frame === undefined) return;
        this.#canvas.classList.toggle("pixelated", Math.max(width, height) <= SMALL);
        this.#listener.shown(frame, now, lead, width, height);
        break;
      }
      case "skipped": {
        const frame = this.#take(event[1]);
        if (frame !== undefined) this.#listener.skipped(frame);
        break;
      }
      case "failed": {
        const [, seq, message] = event;
        const frame = this.#take(seq);
        if (frame !== undefined) this.#listener.failed(frame, message);
        break;
      }
      case "dealt": {
        const [, seq, heldUs] = event;
        this.#listener.dealt(seq, heldUs);
        break;
      }
      case "keyframe":
        this.#listener.keyframe();
        break;
      case "trouble": {
        const [, codec, software, message] = event;
        this.#listener.trouble(codec, software, message);
        break;
      }
    }
  }

  /** The frame `seq`, which gets its one event now. */
  #take(seq: number): HandledFrame | undefined {
    const frame = this.#frames.get(seq);
    this.#frames.delete(seq);
    return frame;
  }
}
