/// <reference lib="esnext.disposable" preserve="true" />
/** The public types of a client: its options, states, events, and what its methods give. */
import type { LatencySnapshot, Quantiles } from "../figures/latency.ts";
import type { Recent } from "../figures/recent-times.ts";
import type { SoundStatistics } from "../sound/audio-player.ts";
import type { CommandError, ConnectionRefused, ReactorError, SessionEnded } from "../wire/errors.ts";
import type {
  ModelSchema,
  Moment,
  TrackKind,
  TransportAction,
  WorldAction,
  WorldChange,
  WorldInStore,
  WorldList,
} from "../wire/messages.ts";
import type {
  AttachOptions,
  AudioInputOptions,
  Frame,
  FramesOptions,
  Packet,
  Publication,
  PushOptions,
  Sound,
  VideoInputOptions,
  View,
} from "./media-types.ts";
import type {
  AnyModel,
  Args,
  CommandName,
  Message,
  ModelRef,
  ModelShape,
  Names,
  Reply,
  Rest,
  SettingName,
  SettingValue,
  TrackName,
} from "./model.ts";
import type { StepDown } from "./outputs.ts";

export type * from "./media-types.ts";
export type { LatencySnapshot, Quantiles, Recent, SoundStatistics, StepDown };

export type Codec = "h264" | "vp8" | "vp9" | "av1" | "lossless" | "jpeg" | "raw";
export type AudioCodec = "opus" | "pcm_s16le";
/** Called before each connection, and once more after the server refused what it gave; null: there is no (other) token. */
export type GiveToken = (why: "first" | "refused") => string | null | Promise<string | null>;

/** How a client without tracks (`reactor-trio/session`) connects. */
export interface SessionClientOptions<M extends ModelShape = AnyModel> {
  /** Another model is refused; another schema is the diagnostic `schema_changed`. */
  model?: ModelRef<M> | string;
  role?: "control" | "viewer";
  /** Without it, the token of the address: `?token=`, or `#token=` as in the page's links. */
  token?: string | GiveToken | undefined;
  /** The token of a fork (`client.worlds.fork`), at whose world the first session begins. If it cannot, the client ends; a session that is resumed stays what it is. */
  fork?: string | undefined;
  /** The id of a saved world, likewise. */
  world?: string | undefined;
  /** Whether a lost link is resumed; default true. */
  resume?: boolean;
  /** Whether a new session begins after a lost one; default "never", for it would be another world. */
  newSession?: "never" | "after-loss";
  /** Where the client saves its session, so that a reloaded page finds it; default `tabMemory()` in a browser. `null`: nowhere. */
  memory?: Memory | null;
  /** Aborting it closes the client. */
  signal?: AbortSignal;
  WebSocket?: new (url: string, protocols: string[]) => WebSocket;
  fetch?: typeof fetch;
}

export interface ConnectOptions<M extends ModelShape = AnyModel> extends SessionClientOptions<M> {
  /** What this place can decode, best first; by default what it can. `false`: no pictures. */
  video?: readonly Codec[] | false;
  audio?: readonly AudioCodec[] | false;
  /** Whether pictures are played with a lead that smooths them; default true. */
  lead?: boolean;
  /** Whether no pictures are asked for while the page is hidden, but for views that record; default false. */
  pauseHidden?: boolean;
  workers?: { pictures?: string | URL | (() => Worker) | false; sound?: string | URL; microphone?: string | URL };
}

/** What it throws is the event `error`, once; the client goes on, and a page that is loaded anew begins another session. */
export interface Memory {
  load(): string | null;
  save(token: string | null): void;
}

export type ClientState =
  | { readonly status: "connecting"; readonly attempt: number }
  /** `wait`: seconds, when the server said it, until the session begins at the latest; null if it does not know. */
  | { readonly status: "queued"; readonly position: number; readonly total: number; readonly wait: number | null; readonly reason?: string }
  | { readonly status: "live"; readonly session: SessionInfo }
  | { readonly status: "resuming"; readonly session: SessionInfo; readonly since: number }
  /** `progress`: how far the load is, while the server says it, which it does not to strangers. */
  | { readonly status: "restarting"; readonly reason: string; readonly progress: LoadProgress | null }
  | { readonly status: "waiting"; readonly error: ReactorError; readonly retryAt: number }
  | { readonly status: "ended"; readonly end: SessionEnded | ConnectionRefused | null };

/** What the model said last of its load. */
export interface LoadProgress {
  /** From 0 to 1; null if it is unknown. */
  readonly fraction: number | null;
  readonly text: string;
}

export interface ClientEvents<M extends ModelShape> {
  state: ClientState;
  message: Message<M>;
  track: TrackInfo;
  /** The session is going to end at `at` (ms, as `performance.now()`); null: it is not any more. */
  ending: { readonly reason: string; readonly at: number } | null;
  /** Code of the model runs since `since` (ms, as `performance.now()`): `what` is the beginning of "step 7 has run for 5 s"; null: not any more. */
  late: { readonly what: string; readonly since: number } | null;
  resumed: { readonly seconds: number; readonly missed: number };
  transport: { readonly paused: boolean };
  /** From step `step` on, the world is that of the moment `to`; before a picture of it. */
  moment: WorldChange;
  /** An error of the server that answers no call of this client. */
  error: ReactorError;
  diagnostic: Diagnostic;
}

export interface SessionInfo {
  readonly id: string;
  readonly url: string;
  readonly model: string;
  readonly role: "control" | "viewer";
  readonly shareToken: string | null;
  readonly resumable: boolean;
  /** Whether `upload` sends files of this client to the model. */
  readonly takesFiles: boolean;
  readonly tracks: readonly TrackInfo[];
  readonly schema: ModelSchema;
}

export interface TrackInfo {
  readonly index: number;
  readonly name: string;
  readonly kind: TrackKind;
  readonly direction: "in" | "out";
  readonly codec: string | null;
  readonly width: number | null;
  readonly height: number | null;
  readonly sampleRate: number | null;
  readonly codecs?: readonly string[];
}

export interface CommandOptions {
  /** Aborting it stops the wait; a command that was not sent yet is taken back. */
  signal?: AbortSignal;
}

/** The answer to a command: the model has applied it, and `step` is the first step that sees it. */
export interface Applied<R> {
  readonly reply: R;
  readonly step: number;
  readonly id: number;
}

export interface Setting<T> {
  /** The model's value, whoever has set it; between two sessions that of the last one. Undefined before the first session begins. */
  readonly value: T | undefined;
  readonly pending: boolean;
  /** Why the newest value was refused; null if it was not. */
  readonly error: CommandError | null;
  /** Fulfilled when this value or a newer one is applied; at most one value is under way, and the newest follows. */
  set(value: T): Promise<void>;
  subscribe(listener: () => void): () => void;
}

/** Pause, step and restart of the model. Each call is fulfilled when the model has taken it, and rejects as a command does. */
export interface Transport {
  /** What this client may do; nothing as a viewer, without a session, and with some models. */
  readonly allowed: readonly TransportAction[];
  /** Whether the session is paused, by whichever client. The event `transport` tells each change. */
  readonly paused: boolean;
  /** Holds the picture at once, and lets no further step begin. Commands are still applied, and time limits count on. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Makes `steps` steps, 1 to 1000, of the paused model; fulfilled before they are made. */
  step(steps?: number): Promise<void>;
  /** Begins the model's `inference()` anew, with the settings "kept" (the default), or "fresh": with their defaults. */
  restart(options?: { readonly state?: "kept" | "fresh" }): Promise<void>;
}

/** A place in the past: the number of a step, or so many steps or seconds back from the picture that is shown. */
export type RewindTo = { readonly step: number } | { readonly steps: number } | { readonly seconds: number };

/** Where a restore has landed, and what may make a difference to the world that was saved. */
export interface RestoredWorld {
  readonly moment: Moment;
  readonly warnings: readonly string[];
}

/** Lets another session begin at a world: `connect(url, { fork })`. */
export interface WorldFork {
  /** The token. Whoever has it may begin there, as often as they like. */
  readonly fork: string;
  /** Until when it is good, in seconds since 1970. */
  readonly expires: number;
}

/** Earlier moments of the session and saved worlds, where the model saves its worlds. Each call is fulfilled when the world is there, and rejects as a command does. */
export interface Worlds {
  /** What this client may do; nothing as a viewer, without a session, and with a model that saves no worlds. */
  readonly may: readonly WorldAction[];
  /** Whether the server has a store, so that saved worlds outlive their session. */
  readonly lasting: boolean;
  /** Goes back to the newest kept moment at or before this one, or to the oldest; gives the moment where it landed. */
  rewind(to: RewindTo): Promise<Moment>;
  /** Takes the newest rewind back, and those before it without a step between, within 60 s. */
  undo(): Promise<Moment>;
  /** The moments that are kept, and the worlds that this session has saved. */
  list(): Promise<WorldList>;
  /** A JPEG file of what was shown at a moment, at most `width` pixels wide: 160, the default, or 320. Rejects with `no_moment` if there is none. */
  picture(step: number, options?: { readonly width?: 160 | 320; readonly signal?: AbortSignal }): Promise<Blob>;
  /**
   * Saves the world as it is between two steps, or with `step` the newest kept moment at or before it. Fulfilled when it is in the server's store.
   * Whoever has its `id` may restore it, unless clients have names: then only their own.
   */
  save(name?: string, options?: { readonly step?: number }): Promise<WorldInStore>;
  /** Goes on from a saved world, of this session or of another. `undo` takes it back, within 60 s. */
  restore(id: string): Promise<RestoredWorld>;
  /** Deletes a saved world. */
  forget(id: string): Promise<void>;
  /**
   * Makes a token with which another session may begin: at the world as it is between two steps, at a kept moment, or at a saved world.
   * It is good for `seconds`, a day unless given. Fulfilled when the world is in the server's store.
   */
  fork(options?: { readonly step?: number; readonly world?: string; readonly seconds?: number }): Promise<WorldFork>;
}

export interface UploadRef {
  readonly upload_id: string;
  readonly name: string;
  readonly mime_type: string;
  readonly size: number;
}

export interface UploadOptions {
  name?: string;
  type?: string;
  signal?: AbortSignal;
  /** Gets the part that is sent, from 0 to 1; with the option `fetch` of `connect` the end alone. */
  onProgress?: (part: number) => void;
}

/** Figures of the client's links. */
export interface LinkStatistics {
  readonly comebacks: number;
  readonly secondsLost: number;
  /** How long nothing was heard of the server, in milliseconds; null without a session. */
  readonly silence: number | null;
}

/** Figures of the present session; times in milliseconds, null without a measurement. */
export interface Statistics extends LinkStatistics {
  readonly tracks: Readonly<Record<string, TrackStatistics>>;
  /** From a command to its picture, by parts. */
  readonly latency: LatencySnapshot | null;
  /** From sending a command to the first picture of the main track made with it. */
  readonly commandToPicture: Recent | null;
  /** From capturing an input to the first picture made with it. */
  readonly captureToPicture: Recent | null;
  /** How much later than its sound a picture is drawn. */
  readonly soundOffset: number | null;
  /** The delay with which pictures are played evenly; null: at once. */
  readonly lead: number | null;
  /** How often this client took a simpler decoder because another one failed. */
  readonly stepsDown: number;
  readonly sound: SoundStatistics;
}

export interface TrackStatistics {
  readonly received: number;
  readonly bytes: number;
  /** Of the pictures that were drawn: how many in a second, and how uneven the times between them are. */
  readonly fps: number | null;
  readonly jitter: number | null;
  /** Frames that were lost on the way, and frames that were dropped here before they were decoded. */
  readonly missing: number;
  readonly skipped: number;
  /** How often the picture stood still, by the rule of webrtc-stats, and for how long in all. A pause of the model is none. */
  readonly freezes: number;
  readonly frozen: number;
  readonly codec: string | null;
}

export type Diagnostic =
  | { readonly code: "no_worker" | "no_webcodecs" | "schema_changed" | "sound_blocked"; readonly message: string }
  | ({ readonly code: "stepped_down"; readonly message: string } & StepDown);

/** A client of a session without its tracks: what `connect` of `reactor-trio/session` returns. */
export interface SessionClient<M extends ModelShape = AnyModel> extends AsyncDisposable {
  /** The same object until the next event `state`. */
  readonly state: ClientState;
  /** The session that is live or resuming, or null. */
  readonly session: SessionInfo | null;
  /** The session; while there is none, the next one. Rejects with what ended the client before it. */
  readonly ready: Promise<SessionInfo>;
  /** How the client ended; null: by `close()`. Never rejects. */
  readonly ended: Promise<SessionEnded | ConnectionRefused | null>;
  /**
   * Sends a command; fulfilled when the model has applied it. Rejects with a CommandError, or with the reason of `options.signal`.
   * Before the session begins and while it resumes, up to 1024 commands wait, in order.
   */
  command<K extends CommandName<M>>(name: K, ...rest: Rest<Args<M, K>, CommandOptions>): Promise<Applied<Reply<M, K>>>;
  setting<F extends SettingName<M>>(name: F): Setting<SettingValue<M, F>>;
  /** Calls `listener` for each event until the returned function is called, or `signal` aborts. */
  on<E extends keyof ClientEvents<M>>(
    event: E,
    listener: (detail: ClientEvents<M>[E]) => void,
    options?: { signal?: AbortSignal },
  ): () => void;
  /** The model's messages from now on; ends with the client. */
  messages(options?: { signal?: AbortSignal }): AsyncIterableIterator<Message<M>>;
  upload(source: Blob | Uint8Array<ArrayBuffer>, options?: UploadOptions): Promise<UploadRef>;
  readonly transport: Transport;
  readonly worlds: Worlds;
  statistics(): LinkStatistics;
  /** Tries now, instead of waiting or after the end, with which loops over frames, packets and messages have ended. */
  reconnect(): void;
  /** Leaves the session for good. */
  close(): Promise<void>;
}

export interface Client<M extends ModelShape = AnyModel> extends SessionClient<M> {
  attach(canvas: HTMLCanvasElement, options?: AttachOptions<TrackName<M, "outputs", "video">>): View;
  /** Pictures and sound for a `<video>`; a canvas (`attach`) is sooner. Disposing of it ends its tracks. */
  stream(options?: { video?: TrackName<M, "outputs", "video"> | false; audio?: boolean }): MediaStream & Disposable;
  frames(track?: TrackName<M, "outputs", "video">, options?: FramesOptions): AsyncIterableIterator<Frame>;
  packets(track?: Names<M["outputs"]>, options?: FramesOptions): AsyncIterableIterator<Packet>;
  readonly sound: Sound;
  publish(
    track: TrackName<M, "inputs", "video">,
    source: "camera" | MediaStreamTrack | HTMLCanvasElement,
    options?: VideoInputOptions,
  ): Promise<Publication>;
  publish(
    track: TrackName<M, "inputs", "audio">,
    source: "microphone" | MediaStreamTrack,
    options?: AudioInputOptions,
  ): Promise<Publication>;
  /**
   * Sends one picture, or one block of samples; fulfilled with whether it was sent. A picture that is no `Uint8Array` is encoded, one of a track
   * at a time: of those that are pushed meanwhile the newest follows, and the others are left out. It must not change before that.
   */
  push(track: TrackName<M, "inputs", "video">, picture: ImageBitmapSource | Uint8Array, options?: PushOptions): Promise<boolean>;
  push(
    track: TrackName<M, "inputs", "audio">,
    samples: Int16Array,
    options?: Pick<PushOptions, "ptsUs" | "captureTimeUs">,
  ): Promise<boolean>;
  /** Asks for other video codecs than `connect` did. */
  requestVideo(codecs: readonly Codec[] | false): void;
  statistics(): Statistics;
}
