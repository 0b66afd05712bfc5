/**
 * Divides the time from a command to its picture into parts. Pure: every method takes the time in milliseconds.
 *
 * A sample is the first drawn frame of the main track whose newest command is one of this page's. The server sends in
 * `meta.timing`, in microseconds: the command's wait for its step, the duration of the step, the frame's wait for the
 * encoder, and the duration of encoding. `decode` is the time from the frame's arrival until it was drawn; `network` is the
 * rest, both ways. No part compares two clocks.
 */

export const PARTS = ["wait", "step", "queue", "encode", "network", "decode"];
const WINDOW = 120;
const MAX_REMEMBERED = 256;

export class Latency {
  #sent = new Map();
  #arrived = new Map();
  #samples = [];

  sent(id, now) {
    remember(this.#sent, id, now);
  }

  /** A command was refused: no frame will be made with it. */
  refused(id) {
    this.#sent.delete(id);
  }

  /** A frame of the main track has arrived. */
  received({ seq }, now) {
    remember(this.#arrived, seq, now);
  }

  /** A frame of the main track was drawn; earlier frames will not be drawn any more. */
  shown({ seq, command, meta }, now) {
    const arrived = this.#arrived.get(seq);
    for (const earlier of this.#arrived.keys()) if (earlier <= seq) this.#arrived.delete(earlier);
    if (command === null) return;
    const sent = this.#sent.get(command);
    for (const id of this.#sent.keys()) {
      if (id > command) break; // ids grow, and a Map keeps their order
      this.#sent.delete(id);
    }
    const times = readTiming(meta);
    if (sent === undefined || arrived === undefined || times === null) return;
    const [wait, step, queue, encode] = times;
    const [total, decode] = [now - sent, now - arrived];
    const network = Math.max(0, total - decode - wait - step - queue - encode);
    this.#samples.push({ total, wait, step, queue, encode, network, decode });
    if (this.#samples.length > WINDOW) this.#samples.shift();
  }

  /** {count, total, wait, …, decode} over the last 120, each {p50, p95} in ms; null without a sample. */
  snapshot() {
    if (this.#samples.length === 0) return null;
    const of = (name) => {
      const sorted = this.#samples.map((sample) => sample[name]).sort((a, b) => a - b);
      return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) };
    };
    return { count: this.#samples.length, ...Object.fromEntries(["total", ...PARTS].map((name) => [name, of(name)])) };
  }
}

function remember(map, key, value) {
  map.set(key, value);
  if (map.size > MAX_REMEMBERED) map.delete(map.keys().next().value);
}

/** The server's four times in ms; null if one is missing or invalid. */
function readTiming(meta) {
  const timing = meta?.timing;
  if (!Array.isArray(timing) || timing.length < 4) return null;
  const times = timing.slice(0, 4);
  return times.every((time) => Number.isFinite(time) && time >= 0) ? times.map((time) => time / 1000) : null;
}

/** The quantile `share` (0 to 1) of the sorted values, with linear interpolation. */
export function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}
