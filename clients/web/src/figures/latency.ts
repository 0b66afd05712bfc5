/**
 * Divides the time from a command to its picture into parts. Pure: every method takes the time in milliseconds.
 *
 * A sample is the first drawn frame of the main track whose newest command is one of this page's. The server sends in
 * `meta.timing`, in microseconds: the command's wait for its step, the duration of the step, the frame's wait for the
 * encoder, and the duration of encoding. `decode` is the time from the frame's arrival until it was drawn; `network` is the
 * rest, both ways. No part compares two clocks.
 */
import type { Packet } from "../wire/packet.ts";
import { type Recent, RecentTimes } from "./recent-times.ts";

export const PARTS = ["wait", "step", "queue", "encode", "network", "decode"] as const;
const WINDOW = 120;
const MAX_REMEMBERED = 256;

export type LatencyPart = (typeof PARTS)[number];

/** Of one kind of time in the samples, in ms. */
export interface Quantiles {
  readonly p50: number;
  readonly p95: number;
}

/** `total` and its parts over the last `count` samples. */
export type LatencySnapshot = { readonly count: number } & { readonly [Name in "total" | LatencyPart]: Quantiles };

export class Latency {
  #sent = new Map<number, number>();
  #arrived = new Map<number, number>();
  #samples: Record<"total" | LatencyPart, number>[] = [];
  #totals = new RecentTimes();

  sent(id: number, now: number): void {
    remember(this.#sent, id, now);
  }

  /** A command was refused: no frame will be made with it. One that was never sent has no `id`. */
  refused(id: number | undefined): void {
    if (id !== undefined) this.#sent.delete(id);
  }

  /** The session is paused: what was sent waits for its picture as long as the pause lasts. */
  forget(): void {
    this.#sent.clear();
  }

  /** A frame of the main track has arrived. */
  received({ seq }: Pick<Packet, "seq">, now: number): void {
    remember(this.#arrived, seq, now);
  }

  /** A frame of the main track was drawn; earlier frames will not be drawn any more. */
  shown({ seq, command, meta }: Pick<Packet, "seq" | "command"> & { readonly meta: Packet["meta"] | null }, now: number): void {
    const arrived = this.#arrived.get(seq);
    for (const earlier of this.#arrived.keys()) if (earlier <= seq) this.#arrived.delete(earlier);
    if (command === null) return;
    const sent = this.#sent.get(command);
    for (const [id, at] of this.#sent) {
      if (id > command) break; // ids grow, and a Map keeps their order
      this.#sent.delete(id);
      this.#totals.add(now - at);
    }
    const times = readTiming(meta);
    if (sent === undefined || arrived === undefined || times === null) return;
    const [wait, step, queue, encode] = times;
    const [total, decode] = [now - sent, now - arrived];
    const network = Math.max(0, total - decode - wait - step - queue - encode);
    this.#samples.push({ total, wait, step, queue, encode, network, decode });
    if (this.#samples.length > WINDOW) this.#samples.shift();
  }

  /** From sending a command to drawing the first frame made with it, also of a server that sends no times; null before the first one. */
  recent(): Recent | null {
    return this.#totals.snapshot();
  }

  /** Over the last 120 samples; null without a sample. */
  snapshot(): LatencySnapshot | null {
    if (this.#samples.length === 0) return null;
    const of = (name: "total" | LatencyPart): Quantiles => {
      const sorted = this.#samples.map((sample) => sample[name]).sort((a, b) => a - b);
      return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) };
    };
    return {
      count: this.#samples.length,
      total: of("total"),
      wait: of("wait"),
      step: of("step"),
      queue: of("queue"),
      encode: of("encode"),
      network: of("network"),
      decode: of("decode"),
    };
  }
}

/** Notes a value, and forgets the oldest one of too many. */
export function remember(map: Map<number, number>, key: number, value: number): void {
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= MAX_REMEMBERED) return;
    map.delete(oldest);
  }
}

/** The server's four times in ms; null if one is missing or invalid. */
function readTiming(meta: Packet["meta"] | null): [wait: number, step: number, queue: number, encode: number] | null {
  const timing = meta?.timing;
  if (!Array.isArray(timing) || timing.length < 4) return null;
  const times: unknown[] = timing.slice(0, 4);
  const valid = (time: unknown): time is number => typeof time === "number" && Number.isFinite(time) && time >= 0;
  // A slice of at least four has four.
  return times.every(valid) ? (times.map((time) => time / 1000) as [number, number, number, number]) : null;
}

/** The quantile `share` (0 to 1) of the sorted values, with linear interpolation; NaN without a value. */
export function quantile(sorted: readonly number[], share: number): number {
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)] ?? NaN, sorted[Math.ceil(place)] ?? NaN];
  return below + (above - below) * (place - Math.floor(place));
}
