/** What a client sends to the model's input tracks: camera, microphone, a canvas, or packets of its own. */
import { describeRefusal, type InputSink } from "../input/capture.ts";
import type { CaptureClock } from "../input/capture-clock.ts";
import type { MediaError } from "../wire/errors.ts";
import type { TrackDescription } from "../wire/messages.ts";
import { encodePacket, KEYFRAME } from "../wire/packet-encoder.ts";
import type { Session } from "../wire/protocol.ts";
import type { AudioInputOptions, Publication, PushOptions, VideoInputOptions } from "./types.ts";

/** Bytes that may wait in the socket before a picture, or sound, is left out. */
const MAX_UNSENT = { video: 128 << 10, audio: 512 << 10 };
const DEFAULT_SIZE = { width: 640, height: 480 };
const DEFAULT_RATE = 30;
const DEFAULT_SAMPLE_RATE = 48_000;
const QUALITY = 0.8;

export type Source = "camera" | "microphone" | MediaStreamTrack | HTMLCanvasElement;

/** Makes the error of this package; handed in, so that this module stands alone and is loaded with the first input. */
export type RefuseMedia = (code: MediaError["code"], message: string) => MediaError;

export class Inputs {
  #refuse: RefuseMedia;
  #session: Session | null = null;
  #clock: CaptureClock | null = null;
  /** The numbers of the session's packets, by track. */
  #numbers = new Map<string, number>();
  #publications = new Set<TrackInput>();
  /** The tracks of which a picture is encoded, each with what calls the one that waits: with false if a newer one takes its place. */
  #encoding = new Map<string, (goesOn: boolean) => void>();

  constructor(refuse: RefuseMedia) {
    this.#refuse = refuse;
  }

  /** A session has begun; `clock` is its capture clock. */
  beginSession(session: Session, clock: CaptureClock): void {
    this.#session = session;
    this.#clock = clock;
    this.#numbers.clear();
    for (const publication of this.#publications) publication.takeKeyframeNext();
  }

  endSession(): void {
    this.#session = null;
  }

  /** The client has ended: no device stays on. */
  close(): void {
    for (const publication of [...this.#publications]) publication.stop();
  }

  /** The server cannot decode input track `index` further. */
  keyframe(index: number): void {
    const name = this.#session?.track(index)?.name;
    for (const publication of this.#publications) if (publication.track === name) publication.takeKeyframeNext();
  }

  /** Starts a device or takes a track, and sends it until `stop`, through all sessions. Rejects with MediaError. */
  async publish(
    name: string,
    source: Source,
    { signal, onLevel, ...options }: VideoInputOptions & AudioInputOptions,
    worklet: string | URL | undefined,
  ): Promise<Publication> {
    const track = this.#find(name);
    const stop = new AbortController();
    const device = typeof source === "string" ? source : "track";
    const refusal = (error: unknown): MediaError => this.#refuse(codeOf(error), describeRefusal(device, error, globalThis));
    const publication = new TrackInput(name, refusal, stop, {
      next: (busy) => this.#next(name, track.kind, busy),
      push: (number, at, meta, payload, key) => this.#push(name, number, this.#ptsOf(name, at), meta, payload, key),
    });
    if (signal?.aborted) signal.throwIfAborted();
    signal?.addEventListener("abort", () => publication.stop(), { once: true, signal: stop.signal });
    this.#publications.add(publication); // at once: the client may end while the user is asked
    stop.signal.addEventListener("abort", () => this.#publications.delete(publication));
    try {
      publication.media = await this.#start(track, source, options, onLevel ?? (() => {}), sinkOf(publication), stop.signal, worklet);
    } catch (error) {
      signal?.throwIfAborted();
      const fault = stop.signal.aborted ? await publication.ended : refusal(error);
      stop.abort();
      throw fault ?? stop.signal.reason; // without a fault the client has ended
    }
    return publication;
  }

  /** Sends one picture, or one block of samples. Resolves with whether the connection took it. */
  async push(
    name: string,
    data: ImageBitmapSource | Uint8Array | Int16Array,
    { ptsUs, captureTimeUs, codec = "jpeg", width, height }: PushOptions,
  ): Promise<boolean> {
    const { kind } = this.#find(name);
    const at = performance.now();
    let [payload, meta]: [Uint8Array, { [key: string]: unknown }] = [new Uint8Array(), {}];
    if (data instanceof Int16Array)
      [payload, meta] = [new Uint8Array(data.buffer, data.byteOffset, data.byteLength), { codec: "pcm_s16le" }];
    else if (data instanceof Uint8Array) [payload, meta] = [data, { codec, ...(codec === "raw" ? { width, height } : {}) }];
    else {
      const jpeg = await this.#encode(name, data);
      if (jpeg === null) return this.#next(name, kind, true) !== null;
      [payload, meta] = [jpeg, { codec: "jpeg" }];
    }
    if (captureTimeUs !== undefined) meta.capture_time_us = Math.round(captureTimeUs);
    const number = this.#next(name, kind, false);
    return number !== null && this.#push(name, number, ptsUs ?? this.#ptsOf(name, at), meta, payload, true);
  }

  /** The picture as JPEG, one of a track at a time; null if a newer one came while it waited. */
  async #encode(name: string, picture: ImageBitmapSource): Promise<Uint8Array | null> {
    const replace = this.#encoding.get(name);
    if (replace === undefined) this.#encoding.set(name, nothing);
    else {
      replace(false);
      if (!(await new Promise<boolean>((resolve) => this.#encoding.set(name, resolve)))) return null;
    }
    try {
      return await jpegOf(picture);
    } finally {
      const next = this.#encoding.get(name) ?? nothing;
      if (next === nothing) this.#encoding.delete(name);
      else this.#encoding.set(name, nothing);
      next(true);
    }
  }

  #find(name: string): TrackDescription {
    const inputs = this.#session?.tracks.filter(({ direction }) => direction === "in") ?? [];
    const track = inputs.find((each) => each.name === name);
    if (track !== undefined) return track;
    const names = inputs.map((each) => `"${each.name}"`).join(", ");
    throw new TypeError(
      this.#session === null ? "there is no session to send to" : `the model has no input "${name}"; it has ${names || "none"}`,
    );
  }

  async #start(
    track: TrackDescription,
    source: Source,
    { width, height, fps = DEFAULT_RATE, deviceId = "", preview: shown }: VideoInputOptions,
    onLevel: (level: number) => void,
    sink: InputSink,
    signal: AbortSignal,
    worklet: string | URL | undefined,
  ): Promise<MediaStream> {
    const { startCamera, startMicrophone } = await import("../input/devices.ts");
    signal.throwIfAborted();
    const stream = typeof source === "string" ? null : streamOf(source, fps, signal);
    if (track.kind === "audio") {
      return startMicrophone({ sampleRate: track.sample_rate ?? DEFAULT_SAMPLE_RATE, deviceId, stream, worklet }, onLevel, sink, signal);
    }
    const size = { width: width ?? track.width ?? DEFAULT_SIZE.width, height: height ?? track.height ?? DEFAULT_SIZE.height };
    const preview = Object.assign(shown ?? document.createElement("video"), { muted: true, playsInline: true });
    return startCamera({ ...size, rate: fps, deviceId, codecs: track.codecs ?? [], stream }, preview, sink, signal);
  }

  /** The number of the track's next packet; null if it must be left out. Packets that are left out are numbered too. */
  #next(name: string, kind: "video" | "audio", busy: boolean): number | null {
    const number = this.#numbers.get(name) ?? 0;
    this.#numbers.set(name, number + 1);
    return !busy && this.#session !== null && this.#session.bufferedAmount <= MAX_UNSENT[kind] ? number : null;
  }

  #ptsOf(name: string, at: number): number {
    return (this.#clock as CaptureClock).pts(this.#session?.tracks.find((track) => track.name === name)?.index ?? -1, at);
  }

  #push(name: string, seq: number, ptsUs: number, meta: { [key: string]: unknown }, payload: Uint8Array, key: boolean): boolean {
    const index = this.#session?.tracks.find((track) => track.name === name && track.direction === "in")?.index;
    if (index === undefined) return false;
    return this.#session?.send(encodePacket({ track: index, seq, ptsUs, flags: key ? KEYFRAME : 0, meta, payload })) ?? false;
  }
}

/** How a publication numbers and sends its packets, in whatever session there is. */
interface TrackWire {
  next(busy: boolean): number | null;
  push(number: number, at: number, meta: { [key: string]: unknown }, payload: Uint8Array, key: boolean): boolean;
}

class TrackInput implements Publication {
  readonly track: string;
  media: MediaStream = undefined as never; // set before anybody gets the publication
  sent = 0;
  skipped = 0;
  codec: string | null = null;
  #refusal: (error: unknown) => MediaError;
  readonly ended: Promise<MediaError | null>;
  #end: (error: MediaError | null) => void = () => {};
  #stop: AbortController;
  #keyframe = false;
  #wire: TrackWire;

  constructor(track: string, refusal: (error: unknown) => MediaError, stop: AbortController, wire: TrackWire) {
    this.track = track;
    this.#refusal = refusal;
    this.#stop = stop;
    this.#wire = wire;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  takeKeyframeNext(): void {
    this.#keyframe = true;
  }

  next(busy: boolean): number | null {
    const number = this.#wire.next(busy);
    if (number === null) this.skipped += 1;
    return number;
  }

  takeKeyframe(): boolean {
    const wanted = this.#keyframe;
    this.#keyframe = false;
    return wanted;
  }

  deliver(number: number, at: number, meta: { [key: string]: unknown }, payload: Uint8Array, key = true): void {
    this.codec = typeof meta.codec === "string" ? meta.codec : null;
    if (this.#wire.push(number, at, meta, payload, key)) this.sent += 1;
  }

  /** The device failed, or ended by itself. */
  fail(error: unknown): void {
    this.#end(this.#refusal(error));
    this.stop();
  }

  stop(): void {
    this.#end(null);
    this.#stop.abort();
  }

  [Symbol.dispose](): void {
    this.stop();
  }
}

/** What takes the frames of a device for a publication. */
const sinkOf = (publication: TrackInput): InputSink => ({
  next: (busy) => publication.next(busy),
  takeKeyframe: () => publication.takeKeyframe(),
  deliver: (...packet) => publication.deliver(...packet),
  ended: (error) => publication.fail(error),
});

/** A canvas is captured until `signal` aborts; a track is the application's, and goes on. */
function streamOf(source: MediaStreamTrack | HTMLCanvasElement, fps: number, signal: AbortSignal): MediaStream {
  if (!("captureStream" in source)) return new MediaStream([source]);
  const stream = source.captureStream(fps);
  signal.addEventListener("abort", () => stream.getTracks().forEach((track) => track.stop()));
  return stream;
}

const nothing = (): void => {};

async function jpegOf(picture: ImageBitmapSource): Promise<Uint8Array<ArrayBuffer>> {
  const bitmap = await createImageBitmap(picture);
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d", { alpha: false })?.drawImage(bitmap, 0, 0);
  bitmap.close();
  const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: QUALITY });
  return new Uint8Array(await blob.arrayBuffer());
}

const CODES: { [name: string]: MediaError["code"] } = {
  NotAllowedError: "not_allowed",
  SecurityError: "not_allowed",
  NotFoundError: "not_found",
  OverconstrainedError: "not_found",
  NotReadableError: "in_use",
  AbortError: "in_use",
  TrackEnded: "ended",
};

function codeOf(error: unknown): MediaError["code"] {
  const { name } = error as Error;
  return name === "NoMediaDevices" && globalThis.isSecureContext === false ? "insecure" : (CODES[name] ?? "unsupported");
}
