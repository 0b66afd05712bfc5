/** Frames and packets of a track for `for await` loops: as they come, through all sessions of a client, and what a view has kept. */
import type { DecodedImage, Decoder, DecoderListener } from "../media/decoders.ts";
import { MOST_READY, type TrackDecoder, type TrackDecoderHelp, type TrackDecoderListener } from "../media/track-decoder.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Session, Packet as WirePacket } from "../wire/protocol.ts";
import type { ItemQueue } from "./item-queue.ts";
import type { Outputs, Taker } from "./outputs.ts";
import type { Frame, Made, Packet } from "./types.ts";

const made = ({ seq, ptsUs, command, step, meta }: Omit<WirePacket, "payload">): Made => ({ seq, ptsUs, command, step, meta });

/** Packets without a keyframe that may wait for a decoder that is slower than the track: those of a second, or two. */
const MOST_WAITING = 32;

/** The picture as an application closes it; null if the browser makes no bitmap of it. */
const closable = (image: DecodedImage): Promise<ImageBitmap | null> | VideoFrame | ImageBitmap =>
  image instanceof ImageData ? createImageBitmap(image).catch(() => null) : image;

/** The packets as they came. */
export class PacketTaker implements Taker {
  readonly wanted: string | undefined;
  #queue: ItemQueue<Packet>;
  #track: TrackDescription | null = null;
  #dealt: (seq: number, heldUs: number) => void = () => {};

  constructor(track: string | undefined, queue: ItemQueue<Packet>) {
    this.wanted = track;
    this.#queue = queue;
  }

  begin(track: TrackDescription, dealt: (seq: number, heldUs: number) => void): void {
    this.#track = track;
    this.#dealt = dealt;
  }

  describe(track: TrackDescription): void {
    this.#track = track;
  }

  take(packet: WirePacket): void {
    const { name, codec } = this.#track as TrackDescription;
    this.#dealt(packet.seq, 0);
    this.#queue.put({
      ...made(packet),
      track: name,
      codec: codec ?? "",
      keyframe: (packet.flags & 1) === 1,
      payload: packet.payload,
    });
  }

  end(): void {
    this.#track = null;
  }
}

interface Entry {
  readonly packet: WirePacket;
  readonly track: TrackDescription;
  readonly seq: number;
  readonly ptsUs: number;
  readonly payload: Uint8Array<ArrayBuffer>;
  readonly key: boolean;
  readonly arrived: number;
}

function entryOf(packet: WirePacket, track: TrackDescription): Entry {
  const { seq, ptsUs, payload, flags } = packet;
  return { packet, track, seq, ptsUs, payload, key: (flags & 1) === 1, arrived: performance.now() };
}

/**
 * The packets decoded. Each frame is its taker's to close; one that is dropped is closed here. While the loop is slow few frames wait, because
 * they occupy the decoder's pool of pictures, which others of the page may need; up to the queue's limit wait as packets.
 */
export class FrameTaker implements Taker, TrackDecoderListener<Entry>, TrackDecoderHelp {
  readonly wanted: string | undefined;
  #queue: ItemQueue<Frame>;
  #track: TrackDescription | null = null;
  #session: Session | null = null;
  #dealt: (seq: number, heldUs: number) => void = () => {};
  #decoder: TrackDecoder<Entry>;
  #waiting: Entry[] = [];
  #newestDone = -1;
  #outputs: Pick<Outputs, "stepDown">;
  #skipped: () => void;

  /** `skipped` is called for each packet that gives the loop no frame. */
  constructor(
    track: string | undefined,
    queue: ItemQueue<Frame>,
    Decoder: typeof TrackDecoder,
    outputs: Pick<Outputs, "software" | "stepDown">,
    skipped: () => void,
  ) {
    this.wanted = track;
    this.#queue = queue;
    queue.taken = () => this.ready();
    this.#outputs = outputs;
    this.#skipped = skipped;
    this.#decoder = new Decoder(this, this, outputs.software, () => performance.now());
  }

  begin(track: TrackDescription, dealt: (seq: number, heldUs: number) => void, session: Session): void {
    this.end();
    this.#track = track;
    this.#session = session;
    this.#dealt = dealt;
    this.#newestDone = -1;
  }

  /** Each description is another object, also after resuming, where it says the same: that it is another one restarts the decoder. */
  describe(track: TrackDescription): void {
    this.#track = track;
  }

  take(packet: WirePacket): void {
    this.#waiting.push(entryOf(packet, this.#track as TrackDescription));
    this.#dropWaiting();
    this.ready();
  }

  preferSoftware(): void {
    this.#decoder.preferSoftware();
  }

  end(): void {
    this.#decoder.close();
    this.#waiting = [];
    this.#track = null;
    this.#session = null;
  }

  ready(): void {
    for (;;) {
      const [entry] = this.#waiting;
      if (entry === undefined) return;
      const next = this.#decoder.next(entry, this.#loopIsBehind());
      if (next === "wait") return;
      this.#waiting.shift();
      if (next === "drop") this.dropped(entry);
      else this.#decoder.feed(entry);
    }
  }

  lost(entry: Entry): void {
    this.dropped(entry);
    this.ready();
  }

  trouble(...cause: Parameters<TrackDecoderHelp["trouble"]>): void {
    this.#outputs.stepDown(...cause);
  }

  keyframe(): void {
    if (this.#track !== null) this.#session?.keyframe(this.#track.index);
  }

  /**
   * Drops packets beyond the queue's limit, because the decoder is slower than the track: those before a keyframe. Without one more may wait,
   * and then all are dropped.
   */
  #dropWaiting(): void {
    const waiting = this.#waiting;
    const beyond = waiting.length - this.#queue.limit;
    if (beyond <= 0) return;
    let kept = waiting.findIndex(({ key }, i) => key && i >= beyond);
    if (kept < 0) kept = waiting.findLastIndex(({ key }) => key);
    if (kept <= 0) {
      if (waiting.length <= Math.max(MOST_WAITING, this.#queue.limit)) return;
      kept = waiting.length;
      this.#decoder.needKey();
    }
    for (const entry of waiting.splice(0, kept)) this.dropped(entry);
  }

  /** Whether enough frames wait for the loop, after the oldest ones have made room for packets beyond the queue's limit. */
  #loopIsBehind(): boolean {
    const queue = this.#queue;
    while (queue.waiting >= MOST_READY && queue.waiting + this.#waiting.length > queue.limit) queue.drop();
    if (queue.waiting < MOST_READY) return false;
    this.#answer(this.#waiting.at(-1) as Entry); // a server is not to slow down for a loop
    return true;
  }

  async decoded(entry: Entry, image: DecodedImage): Promise<void> {
    const shown = await closable(image);
    this.#answer(entry);
    if (shown) this.#queue.put({ ...made(entry.packet), image: shown, [Symbol.dispose]: () => shown.close() });
    else this.#skipped();
    this.ready();
  }

  dropped(entry: Entry): void {
    this.#answer(entry);
    this.#skipped();
  }

  /** The server is told of this packet and all before it, once. */
  #answer({ seq, arrived }: Entry): void {
    if (seq <= this.#newestDone) return;
    this.#newestDone = seq;
    this.#dealt(seq, Math.round((performance.now() - arrived) * 1000));
  }
}

/** Decodes the first `count` packets of the groups again, each keyframe's group as its track was described then; the rest as `replay`. */
export async function* replayAll(
  groups: readonly { readonly track: TrackDescription; readonly packets: readonly WirePacket[] }[],
  count: number,
  fromUs: number,
  open: (track: TrackDescription, listener: DecoderListener<Entry>) => Decoder<Entry>,
): AsyncGenerator<Frame> {
  const parts: { track: TrackDescription; packets: WirePacket[] }[] = [];
  for (const { track, packets } of groups) {
    if (parts.at(-1)?.track !== track) parts.push({ track, packets: [] });
    parts.at(-1)?.packets.push(...packets.slice(0, count));
    count -= packets.length;
  }
  for (const { track, packets } of parts) yield* replay(track, packets, fromUs, (listener) => open(track, listener));
}

/**
 * Decodes kept packets of `track` again, no faster than the loop takes their frames. Frames before `fromUs` are decoded only for those
 * after them. Throws if the decoder fails.
 */
export async function* replay(
  track: TrackDescription,
  packets: readonly WirePacket[],
  fromUs: number,
  open: (listener: DecoderListener<Entry>) => Decoder<Entry>,
): AsyncGenerator<Frame> {
  const ready: Frame[] = [];
  let fed = 0;
  let answered = 0;
  let trouble: string | null = null;
  let wake = (): void => {};
  let inOrder: Promise<void> = Promise.resolve();
  async function give(entry: Entry, image: DecodedImage): Promise<void> {
    const shown = await closable(image);
    answered++;
    if (entry.ptsUs < fromUs) shown?.close();
    else if (shown) ready.push({ ...made(entry.packet), image: shown, [Symbol.dispose]: () => shown.close() });
    wake();
  }
  const fail = (message: string): void => {
    trouble = message;
    wake();
  };
  const decoder = open({
    decoded: (entry, image) => {
      inOrder = inOrder.then(() => give(entry, image));
    },
    lost: () => {
      answered++;
      wake();
    },
    failed: fail,
    stalled: fail,
  });
  try {
    while (true) {
      while (fed < packets.length && ready.length === 0 && decoder.hasRoom) decoder.feed(entryOf(packets[fed++] as WirePacket, track));
      const frame = ready.shift();
      if (frame !== undefined) yield frame;
      else if (answered === packets.length) return;
      else if (trouble !== null) throw new TypeError(trouble);
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    decoder.close();
    await inOrder;
    for (const { image } of ready) image.close();
  }
}
