/** The last seconds of a view's track as they came, to decode them again. */
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/protocol.ts";
import type { Frame } from "./types.ts";

/** Bytes of payload that are kept at most. */
const MOST_BYTES = 32 << 20;
/**
 * Bytes without a keyframe after which one is asked for. A server sends keyframes only on request, so without it the packets since the
 * last one would outgrow `MOST_BYTES`. A keyframe that one viewer asks for begins a group at every other one too.
 */
const BYTES_WITHOUT_KEYFRAME = MOST_BYTES / 2;

/** A keyframe and the packets that need it, as the track was described then. */
interface Group {
  readonly track: TrackDescription;
  readonly packets: Packet[];
  bytes: number;
}

/** What a view says when it gives a packet to its replay. */
export interface ReplayHost {
  /** Whether the view decodes in software. */
  readonly software: boolean;
  askKeyframe(): void;
}

/**
 * Keeps the last seconds of a view, for `attach(canvas, { replay: new Replay(10) })`: as they came, and what is needed to decode them,
 * in at most 32 MiB.
 */
export class Replay {
  #keepUs: number;
  #software = false;
  #groups: Group[] = [];
  #bytes = 0;
  #asked = false;

  constructor(seconds: number) {
    this.#keepUs = seconds * 1e6;
  }

  /** The packets that are kept now, from a keyframe on, in order. */
  get packets(): readonly Packet[] {
    return this.#groups.flatMap(({ packets }) => packets);
  }

  /**
   * The pictures of the last seconds before this call, decoded again, oldest first; none before the first one. What comes later, and
   * the session's end, change nothing. Their size may change on the way. Each frame is its taker's to close. Throws if they cannot be decoded.
   */
  frames(): AsyncIterableIterator<Frame> {
    return decoded([...this.#groups], this.packets.length, this.#fromUs, this.#software);
  }

  /** Keeps a copy of `packet`. Called by the view. */
  keep(packet: Packet, track: TrackDescription, host: ReplayHost): void {
    this.#software = host.software;
    if (packet.ptsUs < this.#lastUs) this.#clear(); // what was kept belongs to the session before
    if ((packet.flags & 1) === 1) {
      this.#groups.push({ track, packets: [], bytes: 0 });
      this.#asked = false;
    }
    const group = this.#groups.at(-1);
    if (group?.track !== track) return; // its keyframe is not kept
    group.packets.push({ ...packet, payload: packet.payload.slice() });
    group.bytes += packet.payload.length;
    this.#bytes += packet.payload.length;
    const needless = ({ packets }: Group): boolean => (packets[0] as Packet).ptsUs <= this.#fromUs;
    while (this.#groups[1] !== undefined && needless(this.#groups[1])) this.#drop();
    while (this.#bytes > MOST_BYTES) this.#drop();
    if (group.bytes <= BYTES_WITHOUT_KEYFRAME || this.#asked) return;
    this.#asked = true;
    host.askKeyframe();
  }

  /** The presentation time from which on the packets belong to the kept seconds, in microseconds. */
  get #fromUs(): number {
    return this.#lastUs - this.#keepUs;
  }

  #clear(): void {
    this.#groups = [];
    this.#bytes = 0;
    this.#asked = false;
  }

  get #lastUs(): number {
    return this.#groups.at(-1)?.packets.at(-1)?.ptsUs ?? Number.NEGATIVE_INFINITY;
  }

  #drop(): void {
    this.#bytes -= this.#groups.shift()?.bytes ?? 0;
  }
}

/** Most applications replay nothing, so the code that decodes is loaded when it is needed. The last group may grow meanwhile. */
async function* decoded(groups: readonly Group[], count: number, fromUs: number, software: boolean): AsyncGenerator<Frame> {
  if (count === 0) return;
  const [{ replayAll }, { openDecoder }] = await Promise.all([import("./iterators.ts"), import("../media/on-page.ts")]);
  yield* replayAll(groups, count, fromUs, (track, listener) => openDecoder(track, software, listener));
}
