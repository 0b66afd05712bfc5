/** The public types of what a client shows, plays, hands out and sends: pictures, sound, inputs. */
import type { MediaError } from "../wire/errors.ts";
import type { Replay } from "./replay.ts";

/** What made a frame: `ptsUs` in microseconds since the session began, `command` the newest of this client's that was applied before. */
export interface Made {
  readonly seq: number;
  readonly ptsUs: number;
  readonly command: number | null;
  readonly step: number;
  readonly meta: Readonly<Record<string, unknown>>;
}

export interface Presented extends Made {
  /** When it was drawn, as `performance.now()`. */
  readonly at: number;
  readonly width: number;
  readonly height: number;
}

export interface Packet extends Made {
  readonly track: string;
  readonly codec: string;
  readonly keyframe: boolean;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** A decoded frame; who takes it closes it (`using`, or `image.close()`). */
export interface Frame extends Made, Disposable {
  readonly image: VideoFrame | ImageBitmap;
}

export interface FramesOptions {
  signal?: AbortSignal;
  /** Only the newest frame waits; else up to 64, and the oldest is dropped and counted. */
  latest?: boolean;
}

export interface AttachOptions<T extends string> {
  /** By default the model's first video track. */
  track?: T;
  lead?: boolean;
  onPresented?: (picture: Presented) => void;
  /** Keeps the track's last seconds; of one view only. */
  replay?: Replay;
}

/**
 * A track on a canvas. It survives sessions, until it is detached; then the canvas may be attached again. Disposing of it also frees
 * what draws on the canvas, which cannot be attached again.
 */
export interface View extends Disposable {
  readonly track: string;
  readonly width: number;
  readonly height: number;
  /** The picture as PNG. */
  snapshot(): Promise<Blob>;
  /** Whether pictures are played with a lead that smooths them. */
  lead: boolean;
  /** Records the shown pictures, with the sound if it is on. */
  record(options?: RecordOptions): Recording;
  detach(): void;
  /** Detaches the canvas for good and frees what draws on it; for a canvas that leaves the page. */
  release(): void;
}

export interface RecordOptions {
  /** Gets the fault that ends a recording; what was recorded before it is in the file. */
  onTrouble?: (message: string) => void;
}

/** A recording that goes on until `stop`, a fault, or the view is detached. */
export interface Recording {
  /** When it began, as `performance.now()`. */
  readonly began: number;
  /** Fulfilled at the end; rejects if nothing was recorded, or if this browser cannot record. */
  readonly file: Promise<Blob>;
  stop(): Promise<Blob>;
}

export interface Sound {
  /** "none": the model has no sound; "blocked": the browser wants a gesture, call `start` in a click's handler. */
  readonly state: "none" | "off" | "starting" | "on" | "blocked";
  /** Perceived loudness, from 0 to 1. */
  volume: number;
  start(): Promise<void>;
  stop(): Promise<void>;
  subscribe(listener: () => void): () => void;
}

export interface Publication extends Disposable {
  readonly track: string;
  readonly media: MediaStream;
  readonly sent: number;
  readonly skipped: number;
  /** The codec of what was last sent; null before. */
  readonly codec: string | null;
  /**
   * How it ended: null by `stop()`, the end of its signal or of the client; else why its device failed, with the code "ended" if its
   * track ended by itself: a device was unplugged, or the sharing of a screen stopped. Never rejects.
   */
  readonly ended: Promise<MediaError | null>;
  stop(): void;
}

export interface VideoInputOptions {
  width?: number;
  height?: number;
  /** Frames a second at most. */
  fps?: number;
  deviceId?: string;
  /** An element of the page that shows what is sent; else one is made. */
  preview?: HTMLVideoElement;
  signal?: AbortSignal;
}

export interface AudioInputOptions {
  deviceId?: string;
  signal?: AbortSignal;
  /** The loudest sample of each block of 20 ms, from 0 to 1. */
  onLevel?: (level: number) => void;
}

export interface PushOptions {
  /** Capture time in microseconds; by default now. */
  ptsUs?: number;
  /** Capture time for the model to read, in microseconds of a clock of your choice. */
  captureTimeUs?: number;
  /** What the bytes are; without it "jpeg". A raw picture is RGB and needs its size. */
  codec?: "jpeg" | "raw";
  width?: number;
  height?: number;
}
