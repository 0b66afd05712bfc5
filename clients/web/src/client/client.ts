/** `connect`: one client object for everything that a page or program does with a model. */

import { decodableAudio, decodableVideo } from "../media/codecs.ts";
import { MediaError } from "../wire/errors.ts";
import type { Session } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { addressOf } from "./address.ts";
import { type AskedTracks, ClientCore } from "./client-core.ts";
import type { Source } from "./inputs.ts";
import type { ItemQueue, ItemQueueOptions } from "./item-queue.ts";
import type { Media, MediaHost } from "./media.ts";
import type { AnyModel, ModelShape } from "./model.ts";
import { SoundOutput } from "./sound-output.ts";
import type {
  AttachOptions,
  AudioInputOptions,
  Client,
  Codec,
  ConnectOptions,
  Frame,
  FramesOptions,
  Packet,
  Publication,
  PushOptions,
  Sound,
  Statistics,
  VideoInputOptions,
  View,
} from "./types.ts";
import { CanvasView } from "./view.ts";

const MAX_FRAMES = 64;
/** The figures of a client that takes no tracks. */
const NO_FIGURES = {
  tracks: {},
  latency: null,
  commandToPicture: null,
  captureToPicture: null,
  soundOffset: null,
  lead: null,
  stepsDown: 0,
};

/**
 * Returns a client at once, which connects. `url` is that of the server (`https://host/path/`) or of its WebSocket (`wss://host/path/ws`),
 * in a page also relative to the document. Nothing is decoded, and no picture is asked for, before somebody takes it.
 */
export function connect<M extends ModelShape = AnyModel>(url: string | URL, options: ConnectOptions<M> = {}): Client<M> {
  const client = prepare(url, options);
  client.reconnect();
  return client;
}

/** A client that does nothing, and has nothing to give back, before its first `reconnect()`. */
export function prepare<M extends ModelShape = AnyModel>(url: string | URL, options: ConnectOptions<M> = {}): Client<M> {
  // ModelClient is a Client of any model, and the compiler checks it as that. M is a type alone: the compiler cannot know that what the
  // server of this model answers has M's types, so they are given here, once.
  return new ModelClient(addressOf(url), options as ConnectOptions) as Client<M>;
}

class ModelClient extends ClientCore implements Client {
  #options: ConnectOptions;
  readonly #sound: SoundOutput;
  /** Null until its module is loaded, when the application first uses a track. */
  #media: Media | null = null;
  #loadingMedia: Promise<Media> | null = null;
  /** Settled when all that the application takes so far is known to `#media`. */
  #taking: Promise<unknown> = Promise.resolve();
  #detected: Promise<readonly string[]> | null = null;
  /** The video codecs to ask for, best first; empty: none. Null until it is known what can be decoded. */
  #video: readonly string[] | null = null;
  #audio: readonly string[] = ["none"];

  constructor(address: URL, options: ConnectOptions) {
    super(address, options);
    this.#options = options;
    this.#sound = new SoundOutput((message) => this.fail("sound", message), options.workers?.sound);
    this.#sound.subscribe(() => {
      if (this.#sound.state !== "blocked") return;
      this.diagnose({
        code: "sound_blocked",
        message: "The browser plays sound after a gesture only: call sound.start() in a click's handler.",
      });
    });
  }

  override reconnect(): void {
    if (this.state.status === "ended") this.#sound.restart();
    super.reconnect();
  }

  override statistics(): Statistics {
    return Object.freeze({ ...(this.#media?.figures() ?? NO_FIGURES), ...super.statistics(), sound: this.#sound.statistics });
  }

  // ---- outputs -------------------------------------------------------------------------------------------------------

  attach(canvas: HTMLCanvasElement, options: AttachOptions<string> = {}): View {
    if (!canvas?.getContext) throw new TypeError(`attach needs a <canvas>, not ${canvas}. Is it in the document when this script runs?`);
    const asked = { lead: this.#options.lead ?? true, ...options };
    return new CanvasView(
      this.#take((media) => media.attach(canvas, asked)),
      asked,
    );
  }

  stream({ video, audio = true }: { video?: string | false; audio?: boolean } = {}): MediaStream & Disposable {
    const media = new MediaStream();
    let view: View | null = null;
    if (video !== false) {
      const canvas = document.createElement("canvas");
      view = this.attach(canvas, video === undefined ? {} : { track: video });
      for (const track of canvas.captureStream().getVideoTracks()) media.addTrack(track);
    }
    const sound = audio ? this.#sound.captureStream() : null;
    for (const track of sound?.stream.getAudioTracks() ?? []) media.addTrack(track);
    return Object.assign(media, {
      [Symbol.dispose]: () => {
        for (const track of media.getTracks()) track.stop();
        sound?.close();
        view?.release();
      },
    });
  }

  frames(track?: string, options: FramesOptions = {}): AsyncIterableIterator<Frame> {
    const queue = this.#trackQueue<Frame>(track, options, { dropped: (frame) => frame.image.close() });
    return this.#give(queue, (media) => media.giveFrames(track, queue));
  }

  packets(track?: string, options: FramesOptions = {}): AsyncIterableIterator<Packet> {
    const queue = this.#trackQueue<Packet>(track, options, { size: ({ payload }) => payload.length });
    return this.#give(queue, (media) => media.givePackets(track, queue));
  }

  requestVideo(codecs: readonly Codec[] | false): void {
    this.#video = codecs || [];
    this.#media?.outputs.setCodecs(this.#video);
  }

  get sound(): Sound {
    return this.#sound;
  }

  // ---- inputs --------------------------------------------------------------------------------------------------------

  async publish(track: string, source: Source, options: VideoInputOptions & AudioInputOptions = {}): Promise<Publication> {
    await unlessAborted(this.ready, options.signal);
    return (await this.#getMedia()).publish(track, source, options);
  }

  async push(track: string, data: ImageBitmapSource | Uint8Array | Int16Array, options: PushOptions = {}): Promise<boolean> {
    return (this.#media ?? (await this.#getMedia())).push(track, data, options);
  }

  // ---- what the core asks --------------------------------------------------------------------------------------------

  /** By the first connection, which begins at least a microtask after `connect`, it is known who takes pictures. */
  protected override async prepare(ears: AbortController): Promise<void> {
    if (this.#options.pauseHidden) globalThis.document?.addEventListener("visibilitychange", () => this.#media?.outputs.ask(), ears);
    await this.#detect();
    await this.#taking;
  }

  /** Without a taker the session begins without video, which can be asked for later. */
  protected override ask(): AskedTracks {
    const audio = this.#audio;
    if (this.#media !== null) return { ...this.#media.outputs.connecting(), audio };
    return this.#video?.length ? { video: this.#video, paused: true, audio } : { video: ["none"], audio };
  }

  protected override begin(session: Session): void {
    this.#media?.beginSession(session);
    this.#sound.beginSession(session);
    // The sound's packets count in the figures, also if nothing else is taken.
    if (this.#sound.state !== "none" && this.#audio[0] !== "none") void this.#getMedia();
  }

  protected override refused(id: number): void {
    this.#media?.refused(id);
  }

  protected override end(): void {
    this.#media?.close();
    void this.#sound.close();
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  /** Finds out what can be decoded, once, and returns the video codecs among it. */
  #detect(): Promise<readonly string[]> {
    const { video, audio } = this.#options;
    const all = async (): Promise<readonly string[]> => {
      const audible = audio ?? (globalThis.AudioContext ? decodableAudio() : false);
      const decodable = await decodableVideo();
      this.#video ??= (video ?? decodable) || [];
      this.#audio = (await audible) || ["none"];
      return decodable;
    };
    this.#detected ??= all();
    return this.#detected;
  }

  /** Loads what takes and gives tracks, once. */
  #getMedia(): Promise<Media> {
    if (this.#loadingMedia === null) {
      this.#loadingMedia = this.#loadMedia();
      this.#loadingMedia.catch((error: Error) => {
        this.#loadingMedia = null; // another time it may be found
        this.fail("media", error.message);
      });
    }
    return this.#loadingMedia;
  }

  async #loadMedia(): Promise<Media> {
    const [{ Media }, decodable] = await Promise.all([import("./media.ts"), this.#detect()]);
    const host: MediaHost = {
      options: this.#options,
      sound: this.#sound,
      error: (code, message) => this.fail(code, message),
      diagnose: (diagnostic) => this.diagnose(diagnostic),
      refuse: (code, message) => new MediaError(code, message),
    };
    this.#media = new Media(host, decodable, this.#video ?? []);
    if (this.live !== null) this.#media.beginSession(this.live);
    return this.#media;
  }

  /** Takes something of the model's tracks; a connection that has not begun waits, and asks for it. */
  #take<T>(take: (media: Media) => T | Promise<T>): T | Promise<T> {
    const taken = this.#media === null ? this.#getMedia().then(take) : take(this.#media);
    this.#taking = Promise.allSettled([this.#taking, taken]).then(() => {}); // keeps nothing of what was taken
    return taken;
  }

  #trackQueue<T>(
    track: string | undefined,
    { signal, latest = false }: FramesOptions,
    { size, dropped }: Pick<ItemQueueOptions<T>, "size" | "dropped">,
  ): ItemQueue<T> {
    return this.queue<T>({
      limit: latest ? 1 : MAX_FRAMES,
      signal,
      size,
      dropped: (item) => {
        dropped?.(item);
        this.#media?.skipped(track);
      },
    });
  }

  /** Returns `queue`, which `give` fills. */
  #give<T>(queue: ItemQueue<T>, give: (media: Media) => Promise<void>): ItemQueue<T> {
    Promise.resolve(this.#take(give)).catch((error: Error) => {
      if (this.#media !== null) this.fail("frames", error.message); // else `#getMedia` has reported it
      queue.end();
    });
    return queue;
  }
}
