/** The figures of one session. */
import { CaptureLatency } from "../figures/capture-latency.ts";
import { Latency } from "../figures/latency.ts";
import { Statistics as PictureStatistics } from "../figures/statistics.ts";
import type { CaptureClock } from "../input/capture-clock.ts";
import { Freezes } from "../media/freezes.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/protocol.ts";
import type { LinkStatistics, Statistics, TrackStatistics } from "./types.ts";

class TrackFigures {
  readonly pictures = new PictureStatistics();
  readonly freezes = new Freezes();
  received = 0;
  bytes = 0;
  codec: string | null = null;

  snapshot(now: number): TrackStatistics {
    const { fps, jitter, gaps, skipped } = this.pictures.snapshot(now);
    const { count, frozen } = this.freezes.figures;
    const { received, bytes, codec } = this;
    return { received, bytes, fps, jitter, missing: gaps, skipped, freezes: count, frozen, codec };
  }
}

export type SessionFigures = Omit<Statistics, "sound" | "stepsDown" | keyof LinkStatistics>;

type ShownFrame = Omit<Packet, "payload">;

export class Figures {
  #tracks = new Map<string, TrackFigures>();
  #latency = new Latency();
  #capture: CaptureLatency;
  /** The name of the model's first video track. */
  #main: string | null;
  #lead: number | null = null;
  #paused = false;

  /** `clock` is the session's capture clock. */
  constructor(tracks: readonly TrackDescription[], clock: CaptureClock) {
    this.#capture = new CaptureLatency(clock);
    this.#main = tracks.find(({ kind, direction }) => kind === "video" && direction === "out")?.name ?? null;
  }

  /** The time of a pause is nobody's: no command waits for its picture in it, and no picture freezes. */
  pause(paused: boolean): void {
    this.#paused = paused;
    if (paused) this.#latency.forget();
  }

  /** Pictures stop or begin because this client asked for that: the time between them is no freeze, and none of them is missing. */
  rest(): void {
    this.#latency.forget();
    for (const { pictures, freezes } of this.#tracks.values()) {
      pictures.rest();
      freezes.rest();
    }
  }

  sent(id: number): void {
    if (!this.#paused) this.#latency.sent(id, performance.now());
  }

  refused(id: number): void {
    this.#latency.refused(id);
  }

  received(packet: Packet, track: TrackDescription): void {
    const figures = this.#of(track.name);
    figures.received += 1;
    figures.bytes += packet.payload.length;
    figures.codec = track.codec;
    figures.pictures.received(packet);
    if (track.name === this.#main) this.#latency.received(packet, performance.now());
  }

  shown(frame: ShownFrame, now: number, lead: number | null, track: TrackDescription, audioTime: number | null): void {
    const figures = this.#of(track.name);
    figures.pictures.shown(frame, now, audioTime);
    if (this.#paused) figures.freezes.rest();
    else figures.freezes.shown(frame, now);
    if (track.name !== this.#main) return;
    this.#lead = lead;
    this.#latency.shown(frame, now);
    this.#capture.shown(frame, now);
  }

  /** A frame of `track`, by default the main one, was dropped here. */
  skipped(track: string | undefined): void {
    this.#of(track ?? this.#main ?? "").pictures.skipped();
  }

  snapshot(): SessionFigures {
    const now = performance.now();
    return {
      tracks: Object.fromEntries([...this.#tracks].map(([name, figures]) => [name, figures.snapshot(now)])),
      latency: this.#latency.snapshot(),
      commandToPicture: this.#latency.recent(),
      captureToPicture: this.#capture.snapshot(),
      soundOffset: this.#tracks.get(this.#main ?? "")?.pictures.snapshot(now).offset ?? null,
      lead: this.#lead,
    };
  }

  #of(name: string): TrackFigures {
    let figures = this.#tracks.get(name);
    if (figures === undefined) {
      figures = new TrackFigures();
      this.#tracks.set(name, figures);
    }
    return figures;
  }
}
