/** `connect`: one client object for everything that a page or program does with a model. */

import { CaptureClock } from "../input/capture-clock.ts";
import { decodableAudio, decodableVideo } from "../media/codecs.ts";
import type * as Pictures from "../media/picture.ts";
import type { ConnectionRefused, SessionEnded } from "../wire/errors.ts";
import { ReactorError, UploadRefused } from "../wire/errors.ts";
import type { Session } from "../wire/protocol.ts";
import { pageOf } from "../wire/protocol.ts";
import { type Arguments, Commands } from "./commands.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { Emitter } from "./emitter.ts";
import { Figures } from "./figures.ts";
import type { Inputs } from "./inputs.ts";
import { ItemQueue } from "./item-queue.ts";
import { FrameTaker, PacketTaker } from "./iterators.ts";
import { Lifecycle } from "./lifecycle.ts";
import { defaultMemory } from "./memory.ts";
import type { AnyModel, Message, ModelShape } from "./model.ts";
import { Outputs } from "./outputs.ts";
import { sessionInfo, trackInfo } from "./session-info.ts";
import { ModelSetting } from "./setting.ts";
import { SoundOutput } from "./sound-output.ts";
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
import { CanvasView, type ViewHost } from "./view.ts";

const MAX_MESSAGES = 1024;

type Events = ClientEvents<AnyModel>;
type Untyped = { [M in keyof Client]: unknown };

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
  // The untyped implementation is given the model's types here, once.
  return new ModelClient(socketUrl(url), options as ConnectOptions) as unknown as Client<M>;
}

/** The WebSocket address of a server's address. */
function socketUrl(given: string | URL): string {
  const url = new URL(given, globalThis.document?.baseURI);
  if (url.protocol === "ws:" || url.protocol === "wss:") {
    url.search = "";
    url.hash = "";
    return url.href;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw new TypeError(`${url.href} is no address of a server: http, https, ws, or wss`);
  const socket = new URL("ws", url);
  socket.protocol = url.protocol.replace("http", "ws");
  return socket.href;
}

class ModelClient implements Untyped {
  #options: ConnectOptions;
  #events = new Emitter<Events>();
  #lifecycle: Lifecycle;
  #commands: Commands;
  #outputs: Outputs;
  /** Null until something is sent to an input for the first time. */
  #inputs: Inputs | null = null;
  #clock = new CaptureClock();
  #figures = new Figures(this.#clock);
  readonly #sound: SoundOutput;
  #settings = new Map<string, ModelSetting>();
  #streams = new Set<ItemQueue<Message<AnyModel>>>();
  #views = new Map<HTMLCanvasElement, CanvasView>();
  #host: ViewHost;
  #session: Session | null = null;
  #info: SessionInfo | null = null;
  #ready: Deferred<SessionInfo> = handled();
  #ended: Deferred<SessionEnded | ConnectionRefused | null> = deferred();
  #audio: readonly string[] = ["none"];
  #detected: Promise<void> | null = null;
  #decoding: Promise<typeof Pictures> | null = null;
  #told = new Set<string>();
  /** Whether the sound was on when the client ended: it is again after `reconnect`. */
  #soundWasOn = false;

  constructor(url: string, options: ConnectOptions) {
    this.#options = options;
    const { model, role } = options;
    this.#commands = new Commands({ refused: (id) => this.#figures.refused(id) });
    this.#outputs = new Outputs({
      received: (packet, track) => this.#figures.received(packet, track),
      steppedDown: (step) => {
        const now = step.video === null ? "It is decoded in software now" : `The client asks for ${step.video.join(" or ")} now`;
        this.#diagnose({ code: "stepped_down", message: `${step.codec}: ${step.cause}. ${now}.`, ...step });
      },
    });
    this.#sound = new SoundOutput((message) => this.#events.emit("error", new ClientFault("sound", message)), options.workers?.sound);
    this.#sound.subscribe(() => {
      if (this.#sound.state !== "blocked") return;
      this.#diagnose({
        code: "sound_blocked",
        message: "The browser plays sound after a gesture only: call sound.start() in a click's handler.",
      });
    });
    this.#host = this.#viewHost();
    const memory = options.memory === undefined ? defaultMemory(url, role) : options.memory;
    this.#lifecycle = new Lifecycle({
      url,
      prepare: () => this.#prepare(),
      ask: () => {
        return { ...this.#outputs.connecting(), audio: this.#audio, role, model: typeof model === "string" ? model : model?.name };
      },
      get token() {
        return options.token;
      },
      resume: options.resume ?? true,
      newSession: options.newSession ?? "never",
      memory,
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
    }
    this.#lifecycle.start();
    if (this.#soundWasOn) void this.#sound.start();
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
    const queue: ItemQueue<Message<AnyModel>> = new ItemQueue({ limit: MAX_MESSAGES, signal, ended: () => this.#streams.delete(queue) });
    if (this.state.status === "ended") queue.end();
    else this.#streams.add(queue);
    return queue;
  }

  /** Sends a file for the model. Rejects with {@link UploadRefused}. */
  async upload(source: Blob | Uint8Array<ArrayBuffer>, options: UploadOptions = {}): Promise<UploadRef> {
    await this.ready;
    const session = this.#need();
    const url = new URL("uploads", pageOf(session.url));
    const token = session.welcome?.upload_token ?? null;
    const { upload } = await import("./upload.ts");
    const refuse = (message: string, status: number): UploadRefused => new UploadRefused(message, status);
    return upload(url, token, source, options, this.#options.fetch ?? fetch, refuse);
  }

  // ---- outputs -------------------------------------------------------------------------------------------------------

  attach(canvas: HTMLCanvasElement, { track, lead, onPresented }: AttachOptions<string> = {}): View {
    this.#views.get(canvas)?.detach();
    const view = new CanvasView(this.#host, canvas, track, lead, onPresented);
    this.#views.set(canvas, view);
    void this.#decode();
    this.#outputs.add(view);
    return view;
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
    const taker = new FrameTaker(track, options, this.#outputs.software, {
      dropped: () => this.#figures.skipped(track ?? this.#mainTrack()),
      ended: (done) => this.#outputs.remove(done),
      trouble: (...trouble) => this.#outputs.stepDown(...trouble),
      failed: (message) => this.#events.emit("error", new ClientFault("frames", message)),
    });
    this.#outputs.add(taker);
    return taker.queue;
  }

  packets(track?: string, options: FramesOptions = {}): AsyncIterableIterator<Packet> {
    const taker = new PacketTaker(
      track,
      options,
      () => this.#figures.skipped(track ?? this.#mainTrack()),
      (done) => this.#outputs.remove(done),
    );
    this.#outputs.add(taker);
    return taker.queue;
  }

  requestVideo(codecs: readonly Codec[] | false): void {
    this.#outputs.setCodecs(codecs || []);
  }

  get sound(): Sound {
    return this.#sound;
  }

  // ---- inputs --------------------------------------------------------------------------------------------------------

  async publish(
    track: string,
    source: "camera" | "microphone" | MediaStreamTrack | HTMLCanvasElement,
    options: VideoInputOptions & AudioInputOptions = {},
  ): Promise<Publication> {
    await this.ready;
    const inputs = await this.#loadInputs();
    return inputs.publish(track, source, options, this.#options.workers?.microphone);
  }

  async push(
    track: string,
    data: ImageBitmapSource | Uint8Array<ArrayBuffer> | Int16Array<ArrayBuffer>,
    options: PushOptions = {},
  ): Promise<boolean> {
    const inputs = this.#inputs ?? (await this.#loadInputs());
    return inputs.push(track, data, options);
  }

  statistics(): Statistics {
    return Object.freeze({ ...this.#figures.snapshot(), sound: this.#sound.statistics, stepsDown: this.#outputs.stepsDown });
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  /** Called before the first connection, which is so at least a microtask after `connect`: by then it is known who takes pictures. */
  async #prepare(): Promise<void> {
    const { signal, pauseHidden } = this.#options;
    const stop = (): void => void this.close();
    signal?.addEventListener("abort", stop);
    void this.#ended.promise.then(() => signal?.removeEventListener("abort", stop));
    if (pauseHidden && globalThis.document !== undefined) {
      const hidden = (): void => this.#outputs.setHidden(document.hidden);
      document.addEventListener("visibilitychange", hidden);
      void this.#ended.promise.then(() => document.removeEventListener("visibilitychange", hidden));
    }
    if (signal?.aborted) stop();
    this.#detected ??= this.#detect();
    await this.#detected;
  }

  /** Finds out what can be decoded, and waits for the worker of a view. */
  async #detect(): Promise<void> {
    const { video, audio } = this.#options;
    const [decodable, audible] = await Promise.all([
      decodableVideo(),
      audio ?? (globalThis.AudioContext ? decodableAudio() : (false as const)),
      Promise.resolve().then(() => this.#decoding),
    ]);
    this.#outputs.setDecodable(decodable);
    this.#outputs.setCodecs((video ?? decodable) || []);
    this.#audio = audible || ["none"];
  }

  #onState(state: ClientState): void {
    if (state.status === "live" || state.status === "resuming") this.#info = state.session;
    else this.#info = null;
    if (state.status === "live") this.#session = this.#lifecycle.session; // so that who hears `live` finds the settings' values
    this.#events.emit("state", state);
    if (state.status === "live") this.#ready.resolve(state.session);
    if (state.status !== "ended") return;
    this.#commands.end();
    this.#ready.reject(state.end ?? new ClientFault("closed", "the client was closed before a session began"));
    this.#ended.resolve(state.end);
    for (const stream of [...this.#streams]) stream.end();
    this.#inputs?.close();
    this.#soundWasOn = !["none", "off"].includes(this.#sound.state);
    void this.#sound.close();
  }

  #onSession(session: Session): void {
    session.addEventListener("welcome", ({ detail: welcome }) => {
      this.#session = session;
      this.#clock = new CaptureClock();
      this.#inputs?.beginSession(session, this.#clock);
      this.#figures.beginSession(session.tracks, this.#clock);
      this.#sound.beginSession(session);
      this.#outputs.beginSession(session);
      this.#commands.begin(session);
      this.#compareSchema(welcome.schema_hash);
      for (const setting of this.#settings.values()) setting.reset();
    });
    session.addEventListener("sent", ({ detail: { id } }) => this.#figures.sent(id));
    session.addEventListener("state", () => this.#settingsChanged());
    session.addEventListener("track", ({ detail: track }) => {
      this.#sound.describe(track);
      this.#outputs.describe(track);
      this.#info = sessionInfo(session);
      this.#events.emit("track", trackInfo(track));
    });
    session.addEventListener("frame", ({ detail: packet }) => {
      this.#outputs.accept(packet);
      this.#sound.accept(packet);
    });
    session.addEventListener("keyframe", ({ detail: { track } }) => this.#inputs?.keyframe(track));
    session.addEventListener("message", ({ detail: { type, data, n = 0 } }) => {
      const message = { type, data, n };
      this.#events.emit("message", message);
      for (const stream of this.#streams) stream.put(message);
    });
    session.addEventListener("ending", ({ detail: { reason, seconds } }) => {
      this.#events.emit("ending", seconds === null ? null : { reason, at: performance.now() + 1000 * seconds });
    });
    session.addEventListener("error", ({ detail: { code, message } }) => this.#events.emit("error", new ClientFault(code, message)));
    session.addEventListener("resumed", ({ detail }) => {
      this.#figures.resumed(detail.seconds);
      this.#outputs.resumed();
      this.#events.emit("resumed", detail);
    });
    session.addEventListener("closed", () => {
      if (this.#session !== session) return;
      this.#session = null;
      this.#inputs?.endSession();
      this.#outputs.endSession();
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

  #settingsChanged(): void {
    for (const setting of this.#settings.values()) setting.changed();
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

  /** Loads what draws pictures and starts the worker, once. */
  #decode(): Promise<typeof Pictures> {
    if (this.#decoding === null) {
      this.#decoding = this.#startDecoding();
      this.#decoding.catch((error: Error) => {
        this.#decoding = null; // another time it may be found
        this.#events.emit("error", new ClientFault("pictures", error.message));
      });
    }
    return this.#decoding;
  }

  async #startDecoding(): Promise<typeof Pictures> {
    const pictures = await import("../media/picture.ts");
    const source = this.#options.workers?.pictures;
    const started = await pictures.startWorker((message) => this.#events.emit("error", new ClientFault("pictures", message)), source);
    if (!started && source !== false)
      this.#diagnose({
        code: "no_worker",
        message: "Pictures are decoded on the page: the worker could not be started. Give its address in workers.pictures.",
      });
    return pictures;
  }

  /** Loads what sends to the inputs, once. */
  async #loadInputs(): Promise<Inputs> {
    const { Inputs } = await import("./inputs.ts");
    if (this.#inputs === null) {
      this.#inputs = new Inputs();
      if (this.#session !== null) this.#inputs.beginSession(this.#session, this.#clock);
    }
    return this.#inputs;
  }

  #viewHost(): ViewHost {
    const client = this;
    return {
      get decoding() {
        return client.#decode();
      },
      get software() {
        return client.#outputs.software;
      },
      lead: this.#options.lead ?? true,
      audioTime: (now) => this.#sound.timeAt(now),
      captureSound: () => this.#sound.captureStream(),
      presented: (frame, now, lead, track) => this.#figures.shown(frame, now, lead, track, this.#sound.timeAt(now)),
      skipped: (track) => this.#figures.skipped(track.name),
      failed: (message) => this.#events.emit("error", new ClientFault("picture", message)),
      steppedDown: (codec, software, message) => this.#outputs.stepDown(codec, software, message),
      detach: (view) => {
        if (this.#views.get(view.canvas) === view) this.#views.delete(view.canvas);
        this.#outputs.remove(view);
      },
    };
  }

  #mainTrack(): string {
    return this.#session?.tracks.find(({ kind, direction }) => kind === "video" && direction === "out")?.name ?? "";
  }

  #need(): Session {
    if (this.#session === null) throw new ClientFault("ended", "there is no session");
    return this.#session;
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
