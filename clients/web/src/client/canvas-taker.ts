/** Draws a track on a canvas, through all sessions of a client. */
import { Picture, releaseCanvas } from "../media/picture.ts";
import type { ShownPicture } from "../media/recorder.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet, Session } from "../wire/protocol.ts";
import type { Outputs, Taker } from "./outputs.ts";
import type { Replay } from "./replay.ts";
import type { SoundOutput } from "./sound-output.ts";
import type { AttachOptions, Presented, Recording, RecordOptions } from "./types.ts";

/** What a `CanvasTaker` needs of its client. */
export interface CanvasHost {
  readonly outputs: Pick<Outputs, "software" | "stepDown" | "ask">;
  readonly sound: Pick<SoundOutput, "timeAt" | "captureStream">;
  presented(frame: Omit<Packet, "payload">, now: number, lead: number | null, track: TrackDescription): void;
  skipped(track: TrackDescription): void;
  error(code: string, message: string): void;
  detach(taker: CanvasTaker): void;
}

export class CanvasTaker implements Taker {
  readonly canvas: HTMLCanvasElement;
  readonly wanted: string | undefined;
  #host: CanvasHost;
  #lead: boolean;
  #onPresented: ((picture: Presented) => void) | undefined;
  #description: TrackDescription | null = null;
  #picture: Picture | null = null;
  /** What drew the canvas's picture: also after the session. */
  #last: Picture | null = null;
  #failing = false;
  /** Called for each picture that was shown. */
  #recorders = new Set<(shown: ShownPicture) => void>();
  #detached = new AbortController();
  #replay: Replay | undefined;
  #askKeyframe = (): void => {};
  width = 0;
  height = 0;

  constructor(host: CanvasHost, canvas: HTMLCanvasElement, { track, lead = true, onPresented, replay }: AttachOptions<string>) {
    this.#host = host;
    this.canvas = canvas;
    this.wanted = track;
    this.#lead = lead;
    this.#onPresented = onPresented;
    this.#replay = replay;
  }

  /** The track's name; "" while it is the first one of a model that is not known yet. */
  get track(): string {
    return this.#description?.name ?? this.wanted ?? "";
  }

  get recording(): boolean {
    return this.#recorders.size > 0;
  }

  set lead(on: boolean) {
    if (on === this.#lead) return;
    this.#lead = on;
    this.#picture?.smooth(on);
  }

  begin(track: TrackDescription, dealt: (seq: number, heldUs: number) => void, session: Session): void {
    this.end();
    this.#description = track;
    this.#askKeyframe = () => session.keyframe(track.index);
    this.#picture = this.#last = this.#open(track, dealt);
  }

  describe(track: TrackDescription): void {
    this.#description = track;
    this.#picture?.describe(track);
  }

  take(packet: Packet): void {
    const { software } = this.#host.outputs;
    // Before the worker gets its bytes.
    this.#replay?.keep(packet, this.#description as TrackDescription, { software, askKeyframe: this.#askKeyframe });
    this.#picture?.show(packet);
  }

  preferSoftware(): void {
    this.#picture?.preferSoftware();
  }

  end(): void {
    this.#picture?.close();
    this.#picture = null;
  }

  async snapshot(): Promise<Blob> {
    if (this.#last === null) throw new TypeError("there is no picture yet: the session has not begun");
    return this.#last.snapshot();
  }

  /** Begins with the sound of now, as soon as the recorder is loaded. */
  async record({ onTrouble }: RecordOptions = {}): Promise<Pick<Recording, "file" | "stop">> {
    const sound = this.#host.sound.captureStream();
    const { signal } = this.#detached;
    try {
      const { record } = await import("../media/recorder.ts");
      const begun = record(this.canvas, sound, this.#recorders, signal, onTrouble);
      const ask = (): void => this.#host.outputs.ask();
      ask();
      begun.file.then(ask, ask);
      return begun;
    } catch (error) {
      sound?.close();
      throw error;
    }
  }

  detach(): void {
    this.#detached.abort(); // ends its recordings
    this.#host.detach(this);
  }

  release(): void {
    this.detach();
    releaseCanvas(this.canvas);
    this.#last = null;
  }

  #open(track: TrackDescription, dealt: (seq: number, heldUs: number) => void): Picture {
    return new Picture(
      this.canvas,
      track,
      {
        shown: (frame, now, lead, width, height) => {
          [this.width, this.height] = [width, height];
          this.#failing = false;
          for (const recordNext of this.#recorders) recordNext(this.#last as Picture);
          this.#host.presented(frame, now, lead, this.#description ?? track);
          const { seq, ptsUs, command, step, meta } = frame;
          this.#onPresented?.({ seq, ptsUs, command, step, meta, at: now, width, height });
        },
        skipped: () => this.#host.skipped(track),
        failed: (frame, message) => {
          // A wrong codec or size fails with every frame; report the first one only.
          if (!this.#failing) this.#host.error("picture", `${track.name}, frame ${frame.seq}: ${message}`);
          this.#failing = true;
        },
        dealt,
        keyframe: this.#askKeyframe,
        trouble: (...cause) => this.#host.outputs.stepDown(...cause),
      },
      { audioTime: (now) => this.#host.sound.timeAt(now), lead: this.#lead, software: this.#host.outputs.software },
    );
  }
}
