/**
 * What a client does with tracks: it shows and hands out what the model makes, sends to the model's inputs, and keeps figures.
 * Loaded when the application uses the first of these, so that a program that only sends commands does not load it.
 */
import { CaptureClock } from "../input/capture-clock.ts";
import { startWorker } from "../media/picture.ts";
import { decodePacket } from "../wire/packet.ts";
import type { Session } from "../wire/protocol.ts";
import { type CanvasHost, CanvasTaker } from "./canvas-taker.ts";
import { Figures, type SessionFigures } from "./figures.ts";
import type { Inputs, RefuseMedia, Source } from "./inputs.ts";
import type { ItemQueue } from "./item-queue.ts";
import { Outputs, type OutputsListener, type Taker } from "./outputs.ts";
import type { SoundOutput } from "./sound-output.ts";
import type {
  AttachOptions,
  AudioInputOptions,
  ConnectOptions,
  Diagnostic,
  Frame,
  Packet,
  Publication,
  PushOptions,
  VideoInputOptions,
} from "./types.ts";

/** What `Media` needs of its client. */
export interface MediaHost {
  readonly options: Pick<ConnectOptions, "video" | "workers" | "pauseHidden">;
  readonly sound: SoundOutput;
  error(code: string, message: string): void;
  diagnose(diagnostic: Diagnostic): void;
  readonly refuse: RefuseMedia;
}

export class Media {
  #host: MediaHost;
  readonly outputs: Outputs;
  #clock = new CaptureClock();
  #figures = new Figures([], this.#clock);
  #session: Session | null = null;
  #takers = new Map<HTMLCanvasElement, CanvasTaker>();
  #startingWorker: Promise<void> | null = null;
  /** Whether it is known if pictures are decoded in the worker. */
  #settled = false;
  /** Null until something is sent to an input for the first time. */
  #inputs: Inputs | null = null;

  /** `decodable` are the codecs that this browser decodes, `codecs` those that are wanted, best first. */
  constructor(host: MediaHost, decodable: readonly string[], codecs: readonly string[]) {
    this.#host = host;
    const listener: OutputsListener = {
      received: (packet, track) => this.#figures.received(packet, track),
      asked: () => this.#figures.rest(),
      steppedDown: (step) => {
        const now = step.video === null ? "It is decoded in software now" : `The client asks for ${step.video.join(" or ")} now`;
        host.diagnose({ code: "stepped_down", message: `${step.codec}: ${step.cause}. ${now}.`, ...step });
      },
    };
    this.outputs = new Outputs(decodable, codecs, listener, host.options.pauseHidden);
  }

  // ---- sessions ------------------------------------------------------------------------------------------------------

  /** A session has its welcome. */
  beginSession(session: Session): void {
    session.decode = decodePacket;
    this.#session = session;
    this.#clock = new CaptureClock();
    this.#figures = new Figures(session.tracks, this.#clock);
    this.#inputs?.beginSession(session, this.#clock);
    this.outputs.beginSession(session);
    this.#figures.pause(session.paused);
    session.addEventListener("transport", ({ detail: { paused } }) => this.#figures.pause(paused));
    session.addEventListener("sent", ({ detail: { id } }) => this.#figures.sent(id));
    session.addEventListener("track", ({ detail: track }) => this.outputs.describe(track));
    session.addEventListener("frame", ({ detail: packet }) => this.outputs.accept(packet));
    session.addEventListener("keyframe", ({ detail: { track } }) => this.#inputs?.keyframe(track));
    session.addEventListener("cadence", ({ detail: { track, every_us } }) => this.outputs.setCadence(track, every_us));
    session.addEventListener("resumed", () => this.outputs.resumed());
    session.addEventListener("closed", () => {
      if (this.#session !== session) return;
      this.#session = null;
      this.#inputs?.endSession();
      this.outputs.endSession();
    });
  }

  /** The client has ended: no device stays on. */
  close(): void {
    this.#inputs?.close();
  }

  // ---- outputs -------------------------------------------------------------------------------------------------------

  /** Draws a track on `canvas`, which nothing else draws on afterwards; at once if the worker has started, or cannot. */
  attach(canvas: HTMLCanvasElement, options: AttachOptions<string>): CanvasTaker | Promise<CanvasTaker> {
    this.#checkWebCodecs();
    if (this.#settled) return this.#open(canvas, options);
    this.#startingWorker ??= this.#startWorker();
    return this.#startingWorker.then(() => this.#open(canvas, options));
  }

  #open(canvas: HTMLCanvasElement, options: AttachOptions<string>): CanvasTaker {
    this.#takers.get(canvas)?.detach();
    const taker = new CanvasTaker(this.#hostOfCanvases(), canvas, options);
    this.#takers.set(canvas, taker);
    this.outputs.add(taker);
    return taker;
  }

  /** Puts the decoded frames of a track into `queue`, until that ends. */
  async giveFrames(track: string | undefined, queue: ItemQueue<Frame>): Promise<void> {
    this.#checkWebCodecs();
    const [{ FrameTaker }, { TrackDecoder }] = await Promise.all([import("./iterators.ts"), import("../media/on-page.ts")]);
    this.#give(new FrameTaker(track, queue, TrackDecoder, this.outputs, () => this.skipped(track)), queue);
  }

  /** Puts the packets of a track into `queue`, until that ends. */
  async givePackets(track: string | undefined, queue: ItemQueue<Packet>): Promise<void> {
    const { PacketTaker } = await import("./iterators.ts");
    this.#give(new PacketTaker(track, queue), queue);
  }

  #give(taker: Taker, { ended }: { readonly ended: Promise<void> }): void {
    this.outputs.add(taker);
    void ended.then(() => this.outputs.remove(taker));
  }

  async #startWorker(): Promise<void> {
    const source = this.#host.options.workers?.pictures;
    const started = await startWorker((message) => this.#host.error("pictures", message), source);
    this.#settled = true;
    if (!started && source !== false)
      this.#host.diagnose({
        code: "no_worker",
        message: "Pictures are decoded on the page: the worker could not be started. Give its address in workers.pictures.",
      });
  }

  /** Without WebCodecs the client asks for JPEG alone, unless the application chose the codecs. */
  #checkWebCodecs(): void {
    if (globalThis.VideoDecoder !== undefined || this.#host.options.video !== undefined) return;
    this.#host.diagnose({ code: "no_webcodecs", message: "Pictures come as JPEG: WebCodecs needs https or localhost." });
  }

  #hostOfCanvases(): CanvasHost {
    const { sound, error } = this.#host;
    const { outputs } = this;
    return {
      outputs,
      sound,
      presented: (frame, now, lead, track) => this.#figures.shown(frame, now, lead, track, sound.timeAt(now)),
      skipped: (track) => this.#figures.skipped(track.name),
      error,
      detach: (taker) => {
        if (this.#takers.get(taker.canvas) === taker) this.#takers.delete(taker.canvas);
        outputs.remove(taker);
      },
    };
  }

  // ---- inputs --------------------------------------------------------------------------------------------------------

  async publish(track: string, source: Source, options: VideoInputOptions & AudioInputOptions): Promise<Publication> {
    return (await this.#loadInputs()).publish(track, source, options, this.#host.options.workers?.microphone);
  }

  async push(track: string, data: ImageBitmapSource | Uint8Array | Int16Array, options: PushOptions): Promise<boolean> {
    return (this.#inputs ?? (await this.#loadInputs())).push(track, data, options);
  }

  /** Loads what sends to the inputs, once. */
  async #loadInputs(): Promise<Inputs> {
    const { Inputs } = await import("./inputs.ts");
    if (this.#inputs === null) {
      this.#inputs = new Inputs(this.#host.refuse);
      if (this.#session !== null) this.#inputs.beginSession(this.#session, this.#clock);
    }
    return this.#inputs;
  }

  // ---- figures -------------------------------------------------------------------------------------------------------

  /** The server refused this command, so no picture shows it. */
  refused(id: number): void {
    this.#figures.refused(id);
  }

  /** A frame was dropped before the application took it. */
  skipped(track: string | undefined): void {
    this.#figures.skipped(track);
  }

  figures(): SessionFigures & { readonly stepsDown: number } {
    return { ...this.#figures.snapshot(), stepsDown: this.outputs.stepsDown };
  }
}
