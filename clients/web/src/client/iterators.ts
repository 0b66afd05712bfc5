/** Frames and packets of a track for `for await` loops: as they come, through all sessions of a client, and what a view has kept. */
import type { DecodedImage, Decoder, DecoderListener, openDecoder } from "../media/decoders.ts";
import { MOST_READY, Recovery } from "../media/recovery.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Session, Packet as WirePacket } from "../wire/protocol.ts";
import type { ItemQueue } from "./item-queue.ts";
import type { Taker } from "./outputs.ts";
import type { Frame, Made, Packet } from "./types.ts";

const made = ({ seq, ptsUs, command, step, meta }: Omit<WirePacket, "payload">): Made => ({ seq, ptsUs, command, step, meta });

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

type PictureDecoder = ReturnType<typeof openDecoder<Entry>>;

/**
 * The packets decoded. Each frame is its taker's to close; one that is dropped is closed here. While the loop is slow few frames wait, because
 * they occupy the decoder's pool of pictures, which others of the page may need; up to the queue's limit wait as packets.
 */
export class FrameTaker implements Taker {
  readonly wanted: string | undefined;
  #queue: ItemQueue<Frame>;
  #track: TrackDescription | null = null;
  #session: Session | null = null;
  #dealt: (seq: number, heldUs: number) => void = () => {};
  #decoder: PictureDecoder | null = null;
  #decoding: TrackDescription | null = null;
  #waiting: Entry[] = [];
  #needsKey = true;
  #newestDone = -1;
  #recovery: Recovery;
  #software: boolean;
  #openDecoder: typeof openDecoder;
  #trouble: (codec: string, software: boolean, message: string) => void;

  constructor(
    track: string | undefined,
    queue: ItemQueue<Frame>,
    open: typeof openDecoder,
    software: boolean,
    trouble: (codec: string, software: boolean, message: string) => void,
  ) {
    this.wanted = track;
    this.#queue = queue;
    queue.taken = () => this.#feed();
    this.#recovery = new Recovery(
      () => performance.now(),
      () => this.#track && this.#session?.keyframe(this.#track.index),
    );
    this.#openDecoder = open;
    this.#software = software;
    this.#trouble = trouble;
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
    this.#feed();
  }

  preferSoftware(): void {
    this.#software = true;
    this.#reset();
    this.#recovery.requestKeyframe();
  }

  end(): void {
    this.#reset();
    this.#recovery.rest();
    this.#waiting = [];
    this.#track = null;
    this.#session = null;
  }

  #feed(): void {
    while (this.#waiting.length > 0) {
      const entry = this.#waiting[0] as Entry;
      if (entry.track !== this.#decoding) {
        if (this.#decoder !== null && !this.#decoder.isEmpty) return; // the pictures of before come first
        this.#reset();
        this.#open(entry.track);
      }
      if (this.#decoder === null || (this.#needsKey && !entry.key)) {
        this.#waiting.shift();
        this.#done(entry);
        if (this.#decoder !== null) this.#recovery.requestKeyframe();
        continue;
      }
      if (this.#loopIsBehind()) {
        this.#done(this.#waiting.at(-1) as Entry); // a server is not to slow down for a loop
        return;
      }
      if (!this.#decoder.hasRoom) return;
      this.#waiting.shift();
      this.#needsKey = false;
      this.#recovery.rest();
      void this.#decoder.feed(entry);
    }
  }

  /** Whether enough frames wait for the loop, after the oldest ones have made room for packets beyond the queue's limit. */
  #loopIsBehind(): boolean {
    const queue = this.#queue;
    while (queue.waiting >= MOST_READY && queue.waiting + this.#waiting.length > queue.limit) queue.drop();
    return queue.waiting >= MOST_READY;
  }

  #open(track: TrackDescription): void {
    this.#decoding = track;
    try {
      this.#decoder = this.#openDecoder<Entry>(track, this.#software, {
        decoded: (entry, image) => void this.#decoded(entry, image),
        lost: (entry) => {
          this.#done(entry);
          this.#feed();
        },
        failed: (message, reclaimed) => (reclaimed ? this.#reset() : this.#failed(track, message)),
        stalled: (message) => this.#fail(track, message),
      });
    } catch (error) {
      this.#fail(track, (error as Error).message);
    }
  }

  async #decoded(entry: Entry, image: DecodedImage): Promise<void> {
    const shown = await closable(image);
    this.#done(entry);
    if (shown) this.#queue.put({ ...made(entry.packet), image: shown, [Symbol.dispose]: () => shown.close() });
    this.#feed();
  }

  #failed(track: TrackDescription, message: string): void {
    if (this.#recovery.failed()) {
      this.#fail(track, message);
      return;
    }
    this.#reset();
    this.#recovery.requestKeyframe();
    this.#feed();
  }

  #fail(track: TrackDescription, message: string): void {
    this.#reset();
    this.#recovery.rest();
    this.#decoding = track; // until a fallback gives another description or decoder, its packets are left out
    this.#trouble(track.codec ?? "", this.#software, message);
  }

  /** The server is told of this packet and all before it, once. */
  #done({ seq, arrived }: Entry): void {
    if (seq <= this.#newestDone) return;
    this.#newestDone = seq;
    this.#dealt(seq, Math.round((performance.now() - arrived) * 1000));
  }

  #reset(): void {
    for (const entry of this.#decoder?.close() ?? []) this.#done(entry);
    this.#decoder = null;
    this.#decoding = null;
    this.#needsKey = true;
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
