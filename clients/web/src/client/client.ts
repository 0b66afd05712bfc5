/** `connect`: one client object for everything that a page or program does with a model. */

import { decodableAudio, decodableVideo } from "../media/codecs.ts";
import type { ConnectionRefused, SessionEnded } from "../wire/errors.ts";
import { MediaError, ReactorError, UploadRefused } from "../wire/errors.ts";
import type { Session, SocketOptions } from "../wire/protocol.ts";
import { pageOf } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { type Arguments, Commands } from "./commands.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { Emitter } from "./emitter.ts";
import type { Source } from "./inputs.ts";
import { ItemQueue, type ItemQueueOptions } from "./item-queue.ts";
import { Lifecycle } from "./lifecycle.ts";
import type { Media, MediaHost } from "./media.ts";
import { defaultMemory } from "./memory.ts";
import type { AnyModel, Message, ModelShape } from "./model.ts";
import { sessionInfo, trackInfo } from "./session-info.ts";
import { ModelSetting } from "./setting.ts";
import { SoundOutput } from "./sound-output.ts";
import { ModelTransport } from "./transport.ts";
import type {
  Applied,
  AttachOptions,
  AudioInputOptions,
  Client,
  ClientEvents,
  ClientState,
  Codec,
  CommandOptions,
  ConnectOptions,
  Diagnostic,
  Frame,
  FramesOptions,
  Packet,
  Publication,
  PushOptions,
  SessionInfo,
  Setting,
  Sound,
  Statistics,
  UploadOptions,
  UploadRef,
  VideoInputOptions,
  View,
} from "./types.ts";
import { CanvasView } from "./view.ts";

const MAX_MESSAGES = 1024;
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

type Events = ClientEvents<AnyModel>;

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
  return new ModelClient(new URL(url, globalThis.document?.baseURI), options as ConnectOptions) as Client<M>;
}

/** Emits the event `error` of `client` for what fails outside of it. */
export function reportFault(client: Client, code: string, message: string): void {
  if (client instanceof ModelClient) client.fail(code, message);
}

/** The WebSocket address: `ws` beside the server's page, or below a folder; an address `ws:` or `wss:` of anything else is the WebSocket's own. */
function socketUrl(url: URL): string {
  if (!/^(http|ws)s?:$/.test(url.protocol)) throw new TypeError(`${url.href} is no address of a server: http, https, ws, or wss`);
  const own = url.protocol.startsWith("ws") && !url.pathname.endsWith("/");
  const socket = new URL(own ? url : "ws", url);
  socket.search = socket.hash = "";
  socket.protocol = socket.protocol.replace("http", "ws");
  return socket.href;
}

class ModelClient implements Client {
  #options: ConnectOptions;
  #events = new Emitter<Events>();
  #lifecycle: Lifecycle;
  #commands = new Commands({ refused: (id) => this.#media?.refused(id) });
  readonly #sound: SoundOutput;
  readonly transport = new ModelTransport(
    () => this.#session,
    (name, args) => this.command(name, args),
  );
  /** Null until its module is loaded, when the application first uses a track. */
  #media: Media | null = null;
  #loadingMedia: Promise<Media> | null = null;
  /** Settled when all that the application takes so far is known to `#media`. */
  #taking: Promise<unknown> = Promise.resolve();
  #settings = new Map<string, ModelSetting>();
  #streams = new Set<ItemQueue<Message<AnyModel>>>();
  /** What `for await` loops of the application wait for; they end with the client. */
  #queues = new Set<{ end(): void }>();
  #session: Session | null = null;
  #info: SessionInfo | null = null;
  #ready: Deferred<SessionInfo> = handled();
  #ended: Deferred<SessionEnded | ConnectionRefused | null> = deferred();
  #detected: Promise<readonly string[]> | null = null;
  /** The video codecs to ask for, best first; empty: none. Null until it is known what can be decoded. */
  #video: readonly string[] | null = null;
  #audio: readonly string[] = ["none"];
  #comebacks = 0;
  #secondsLost = 0;
  #told = new Set<string>();

  constructor(address: URL, options: ConnectOptions) {
    this.#options = options;
    const { model, role } = options;
    this.#sound = new SoundOutput((message) => this.fail("sound", message), options.workers?.sound);
    this.#sound.subscribe(() => {
      if (this.#sound.state !== "blocked") return;
      this.#diagnose({
        code: "sound_blocked",
        message: "The browser plays sound after a gesture only: call sound.start() in a click's handler.",
      });
    });
    // In the query, or behind the `#` as in the page's links.
    const token = new URLSearchParams(address.search + address.hash.replace("#", "&")).get("token");
    const url = socketUrl(address);
    this.#lifecycle = new Lifecycle({
      url,
      prepare: () => this.#prepare(),
      ask: () => {
        return { ...this.#askForVideo(), audio: this.#audio, role, model: typeof model === "string" ? model : model?.name };
      },
      get token() {
        return options.token ?? token;
      },
      resume: options.resume ?? true,
      newSession: options.newSession ?? "never",
      memory: options.memory === undefined ? defaultMemory(url, role) : options.memory,
      WebSocket: options.WebSocket,
      fetch: options.fetch ?? ((...request) => fetch(...request)),
    });
    this.#lifecycle.on("state", (state) => this.#onState(state));
    this.#lifecycle.on("session", (session) => this.#onSession(session));
  }

  // ---- state ---------------------------------------------------------------------------------------------------------

  get state(): ClientState {
    return this.#lifecycle.state;
  }

  get session(): SessionInfo | null {
    return this.#info;
  }

  get ready(): Promise<SessionInfo> {
    return this.#ready.promise;
  }

  get ended(): Promise<SessionEnded | ConnectionRefused | null> {
    return this.#ended.promise;
  }

  on<E extends keyof Events>(event: E, listener: (detail: Events[E]) => void, options?: { signal?: AbortSignal }): () => void {
    return this.#events.on(event, listener, options);
  }

  reconnect(): void {
    if (this.state.status === "ended") {
      this.#ready = handled();
      this.#ended = deferred();
      this.#commands.restart();
      this.#sound.restart();
    }
    this.#lifecycle.start();
  }

  async close(): Promise<void> {
    this.#lifecycle.close();
    await this.#ended.promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // ---- commands ------------------------------------------------------------------------------------------------------

  command(name: string, args: Arguments = {}, options: CommandOptions = {}): Promise<Applied<unknown>> {
    return this.#commands.send(name, args, options);
  }

  setting(name: string): Setting<unknown> {
    let setting = this.#settings.get(name);
    if (setting === undefined) {
      setting = new ModelSetting(
        () => this.#session?.state[name],
        (value) => this.command(`set_${name}`, { [this.#argumentOf(`set_${name}`) ?? name]: value }),
      );
      this.#settings.set(name, setting);
    }
    return setting;
  }

  messages({ signal }: { signal?: AbortSignal } = {}): AsyncIterableIterator<Message<AnyModel>> {
    const queue = this.#queue<Message<AnyModel>>({ limit: MAX_MESSAGES, signal });
    this.#streams.add(queue);
    void queue.ended.then(() => this.#streams.delete(queue));
    return queue;
  }

  /** Sends a file for the model. Rejects with {@link UploadRefused}. */
  async upload(source: Blob | Uint8Array<ArrayBuffer>, options: UploadOptions = {}): Promise<UploadRef> {
    await unlessAborted(this.ready, options.signal);
    const session = this.#session;
    if (session === null) throw new ClientFault("ended", "there is no session");
    const url = new URL("uploads", pageOf(session.url));
    const { upload } = await import("./upload.ts");
    const refuse = (...why: ConstructorParameters<typeof UploadRefused>): UploadRefused => new UploadRefused(...why);
    return upload(url, session.welcome?.upload_token ?? null, source, options, this.#options.fetch ?? fetch, refuse);
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
        view?.detach();
      },
    });
  }

  frames(track?: string, options: FramesOptions = {}): AsyncIterableIterator<Frame> {
    const queue = this.#trackQueue<Frame>(track, options, (frame) => frame.image.close());
    return this.#give(queue, (media) => media.giveFrames(track, queue));
  }

  packets(track?: string, options: FramesOptions = {}): AsyncIterableIterator<Packet> {
    const queue = this.#trackQueue<Packet>(track, options);
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

  statistics(): Statistics {
    const [sound, comebacks, secondsLost] = [this.#sound.statistics, this.#comebacks, this.#secondsLost];
    const silence = this.#session && performance.now() - this.#session.heardAt;
    return Object.freeze({ ...(this.#media?.figures() ?? NO_FIGURES), sound, comebacks, secondsLost, silence });
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  /** Called before the first connection, which is so at least a microtask after `connect`: by then it is known who takes pictures. */
  async #prepare(): Promise<void> {
    const { signal, pauseHidden } = this.#options;
    const ears = new AbortController();
    void this.#ended.promise.then(() => ears.abort());
    const stop = (): void => void this.close();
    signal?.addEventListener("abort", stop, ears);
    if (pauseHidden) globalThis.document?.addEventListener("visibilitychange", () => this.#media?.outputs.ask(), ears);
    if (signal?.aborted) stop();
    await this.#detect();
    await this.#taking;
  }

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

  /** What to ask for at a new connection. Without a taker the session begins without video, which can be asked for later. */
  #askForVideo(): Pick<SocketOptions, "video" | "tracks" | "paused"> {
    if (this.#media !== null) return this.#media.outputs.connecting();
    return this.#video?.length ? { video: this.#video, paused: true } : { video: ["none"] };
  }

  #onState(state: ClientState): void {
    if (state.status === "live" || state.status === "resuming") this.#info = state.session;
    else this.#info = null;
    if (state.status === "live") this.#session = this.#lifecycle.session; // so that who hears `live` finds the settings' values
    this.#events.emit("state", state);
    if (state.status === "live") this.#ready.resolve(state.session);
    if (state.status !== "ended") return;
    this.#commands.end(state.end?.message ?? "");
    this.#ready.reject(state.end ?? new ClientFault("closed", "the client was closed before a session began"));
    this.#ended.resolve(state.end);
    for (const queue of this.#queues) queue.end();
    this.#media?.close();
    void this.#sound.close();
  }

  #onSession(session: Session): void {
    session.addEventListener("welcome", ({ detail: welcome }) => {
      this.#session = session;
      this.#media?.beginSession(session);
      this.#sound.beginSession(session);
      // The sound's packets count in the figures, also if nothing else is taken.
      if (this.#sound.state !== "none" && this.#audio[0] !== "none") void this.#getMedia();
      this.#commands.begin(session);
      this.#compareSchema(welcome.schema_hash);
      for (const setting of this.#settings.values()) setting.reset();
    });
    session.addEventListener("state", () => {
      for (const setting of this.#settings.values()) setting.changed();
    });
    session.addEventListener("transport", ({ detail }) => this.#events.emit("transport", detail));
    session.addEventListener("track", ({ detail: track }) => {
      this.#info = sessionInfo(session);
      this.#events.emit("track", trackInfo(track));
    });
    session.addEventListener("message", ({ detail: { type, data, n = 0 } }) => {
      const message = { type, data, n };
      this.#events.emit("message", message);
      for (const stream of this.#streams) stream.put(message);
    });
    session.addEventListener("ending", ({ detail: { reason, seconds } }) => {
      this.#events.emit("ending", seconds === null ? null : { reason, at: performance.now() + 1000 * seconds });
    });
    session.addEventListener("late", ({ detail: { what, seconds } }) => {
      this.#events.emit("late", what === null ? null : { what, since: performance.now() - 1000 * seconds });
    });
    session.addEventListener("error", ({ detail: { code, message } }) => this.fail(code, message));
    session.addEventListener("resumed", ({ detail }) => {
      this.#comebacks += 1;
      this.#secondsLost += detail.seconds;
      this.#events.emit("resumed", detail);
    });
    session.addEventListener("closed", () => {
      if (this.#session !== session) return;
      this.#session = null;
      this.#commands.pause();
      for (const setting of this.#settings.values()) setting.reset();
    });
  }

  /** The name of the one argument that a command takes, or null. */
  #argumentOf(command: string): string | null {
    const schema = this.#info?.schema.commands.find(({ name }) => name === command)?.schema;
    const names = Object.keys((schema?.properties as object | undefined) ?? {});
    return names.length === 1 ? (names[0] ?? null) : null;
  }

  #compareSchema(hash: string | undefined): void {
    const { model } = this.#options;
    if (typeof model !== "object" || hash === undefined || model.schemaHash === hash) return;
    this.#diagnose({
      code: "schema_changed",
      message: `The model "${model.name}" has changed since its types were made (${model.schemaHash}, now ${hash}): run reactor types again.`,
    });
  }

  /** Says each diagnostic's text once. */
  #diagnose(diagnostic: Diagnostic): void {
    if (this.#told.has(diagnostic.message)) return;
    this.#told.add(diagnostic.message);
    this.#events.emit("diagnostic", diagnostic);
  }

  fail(code: string, message: string): void {
    this.#events.emit("error", new ClientFault(code, message));
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
      diagnose: (diagnostic) => this.#diagnose(diagnostic),
      refuse: (code, message) => new MediaError(code, message),
    };
    this.#media = new Media(host, decodable, this.#video ?? []);
    if (this.#session !== null) this.#media.beginSession(this.#session);
    return this.#media;
  }

  /** Takes something of the model's tracks; a connection that has not begun waits, and asks for it. */
  #take<T>(take: (media: Media) => T | Promise<T>): T | Promise<T> {
    const taken = this.#media === null ? this.#getMedia().then(take) : take(this.#media);
    this.#taking = Promise.allSettled([this.#taking, taken]);
    return taken;
  }

  #queue<T>(options: ItemQueueOptions<T>): ItemQueue<T> {
    const queue = new ItemQueue<T>(options);
    if (this.state.status === "ended") queue.end();
    this.#queues.add(queue);
    void queue.ended.then(() => this.#queues.delete(queue));
    return queue;
  }

  #trackQueue<T>(track: string | undefined, { signal, latest = false }: FramesOptions, close: (item: T) => void = () => {}): ItemQueue<T> {
    const dropped = (item: T): void => {
      close(item);
      this.#media?.skipped(track);
    };
    return this.#queue<T>({ limit: latest ? 1 : MAX_FRAMES, signal, dropped });
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

/** A fault that is no answer to a call. */
class ClientFault extends ReactorError {
  override readonly name = "ReactorError";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A promise that may be rejected without anybody looking at it. */
function handled<T>(): Deferred<T> {
  const made = deferred<T>();
  made.promise.catch(() => {});
  return made;
}
