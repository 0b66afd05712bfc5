/** A track on a canvas, through all sessions of a client. */
import type * as Pictures from "../media/picture.ts";
import type { Recorder } from "../media/recorder.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet, Session } from "../wire/protocol.ts";
import { deferred } from "./deferred.ts";
import type { Taker } from "./outputs.ts";
import type { Presented, Recording, RecordOptions, View } from "./types.ts";

/** Packets that wait while the worker starts. */
const MAX_EARLY = 64;

/** What a view needs of its client. */
export interface ViewHost {
  /** Fulfilled when pictures can be decoded: in the worker, or without one. */
  readonly decoding: Promise<typeof Pictures>;
  readonly software: boolean;
  readonly lead: boolean;
  /** The presentation time in ms of the sound heard at `now`, or null. */
  audioTime(now: number): number | null;
  /** The played sound for a recording, or null. */
  captureSound(): { stream: MediaStream; close(): void } | null;
  presented(frame: Omit<Packet, "payload">, now: number, lead: number | null, track: TrackDescription): void;
  skipped(track: TrackDescription): void;
  failed(message: string): void;
  steppedDown(codec: string | null, software: boolean, message: string): void;
  detach(view: CanvasView): void;
}

export class CanvasView implements Taker, View {
  readonly canvas: HTMLCanvasElement;
  readonly wanted: string | undefined;
  #host: ViewHost;
  #lead: boolean;
  #onPresented: ((picture: Presented) => void) | undefined;
  #description: TrackDescription | null = null;
  #pictures: typeof Pictures | null = null;
  #picture: Pictures.Picture | null = null;
  /** What drew the canvas's picture: also after the session. */
  #last: Pictures.Picture | null = null;
  #failing = false;
  #early: Packet[] | null = null;
  #recorders = new Set<Recorder>();
  #recordings = new Set<AbortController>();
  width = 0;
  height = 0;

  constructor(
    host: ViewHost,
    canvas: HTMLCanvasElement,
    track: string | undefined,
    lead: boolean | undefined,
    onPresented?: (picture: Presented) => void,
  ) {
    this.#host = host;
    this.canvas = canvas;
    this.wanted = track;
    this.#lead = lead ?? host.lead;
    this.#onPresented = onPresented;
  }

  /** The track's name; "" while it is the first one of a model that is not known yet. */
  get track(): string {
    return this.#description?.name ?? this.wanted ?? "";
  }

  get lead(): boolean {
    return this.#lead;
  }

  set lead(on: boolean) {
    this.#lead = on;
    this.#picture?.smooth(on);
  }

  begin(track: TrackDescription, dealt: (seq: number, heldUs: number) => void, session: Session): void {
    this.end();
    this.#description = track;
    const early: Packet[] = [];
    this.#early = early;
    this.#host.decoding.then(
      (pictures) => {
        if (this.#early !== early) return; // detached, or another session, meanwhile
        this.#early = null;
        this.#pictures = pictures;
        this.#picture = this.#last = this.#open(pictures, this.#description ?? track, dealt, session);
        for (const packet of early) this.#picture.show(packet);
      },
      () => {}, // the client has said so
    );
  }

  describe(track: TrackDescription): void {
    this.#description = track;
    this.#picture?.describe(track);
  }

  take(packet: Packet): void {
    if (this.#early === null) this.#picture?.show(packet);
    else if (this.#early.length < MAX_EARLY) this.#early.push(packet);
  }

  preferSoftware(): void {
    this.#picture?.preferSoftware();
  }

  end(): void {
    this.#early = null;
    this.#picture?.close();
    this.#picture = null;
  }

  async snapshot(): Promise<Blob> {
    if (this.#last === null) throw new TypeError("there is no picture yet: the session has not begun");
    return this.#last.snapshot();
  }

  record({ onTrouble }: RecordOptions = {}): Recording {
    const { promise, resolve, reject } = deferred<Blob>();
    promise.catch(() => {}); // `stop()` returns this promise; a caller that ignores it causes no unhandled rejection
    const sound = this.#host.captureSound();
    const stop = new AbortController();
    this.#recordings.add(stop);
    let trouble = "there was nothing to record";
    const done = (file: Blob): void => {
      this.#recordings.delete(stop);
      if (file.size > 0) resolve(file);
      else reject(new Error(trouble));
    };
    const failed = (message: string): void => {
      trouble = message;
      onTrouble?.(message);
    };
    void import("../media/recorder.ts")
      .then(({ Recorder }) => {
        const recorder = new Recorder(this.canvas, sound, { done, failed });
        this.#recorders.add(recorder);
        const end = (): void => {
          this.#recorders.delete(recorder);
          recorder.stop();
        };
        stop.signal.addEventListener("abort", end);
        if (stop.signal.aborted) end();
      })
      .catch((error: unknown) => {
        sound?.close();
        this.#recordings.delete(stop);
        reject(error);
      });
    return {
      began: performance.now(),
      file: promise,
      stop: () => {
        stop.abort();
        return promise;
      },
    };
  }

  detach(): void {
    for (const recording of [...this.#recordings]) recording.abort();
    this.#host.detach(this);
  }

  release(): void {
    this.detach();
    this.#pictures?.releaseCanvas(this.canvas);
    this.#last = null;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #open(
    { Picture }: typeof Pictures,
    track: TrackDescription,
    dealt: (seq: number, heldUs: number) => void,
    session: Session,
  ): Pictures.Picture {
    return new Picture(
      this.canvas,
      track,
      {
        shown: (frame, now, lead, width, height) => {
          [this.width, this.height] = [width, height];
          this.#failing = false;
          for (const recorder of this.#recorders) recorder.shown();
          this.#host.presented(frame, now, lead, this.#description ?? track);
          const { seq, ptsUs, command, step, meta } = frame;
          this.#onPresented?.({ seq, pts: ptsUs, command, step, meta, at: now, width, height });
        },
        skipped: () => this.#host.skipped(track),
        failed: (frame, message) => {
          // A wrong codec or size fails with every frame; report the first one only.
          if (!this.#failing) this.#host.failed(`${track.name}, frame ${frame.seq}: ${message}`);
          this.#failing = true;
        },
        dealt,
        keyframe: () => session.keyframe(track.index),
        trouble: (codec, software, message) => this.#host.steppedDown(codec, software, message),
      },
      { audioTime: (now) => this.#host.audioTime(now), lead: this.#lead, software: this.#host.software },
    );
  }
}
