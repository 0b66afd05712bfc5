/**
 * Where the time from a command to its picture goes. Pure: every method takes the time in milliseconds.
 *
 * A sample is the first drawn frame of the main track whose newest command is one of ours. The server says in
 * `meta.timing`, in microseconds, how long that command waited for its step, how long the step took, how long the frame
 * then waited to be encoded and how long that took. Decoding is from the frame's arrival until it was drawn; what is left
 * of the whole is the network's, both ways. So no two clocks are compared.
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

  /** A frame of the main track was drawn; those before it will not be. */
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

  /** {count, total, wait, …, decode} over the last 120, each {p50, p95} in ms; null while there is none. */
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

/** The server's four times in ms; null if it did not say them all. */
function readTiming(meta) {
  const timing = meta?.timing;
  if (!Array.isArray(timing) || timing.length < 4) return null;
  const times = timing.slice(0, 4);
  return times.every((time) => Number.isFinite(time) && time >= 0) ? times.map((time) => time / 1000) : null;
}

/** The value below which the part `share` of the sorted values lies, between neighbours in proportion. */
export function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}
