/**
 * Decoders for pictures, the same in a worker and on the page. A decoder takes entries, one for each frame, and calls
 * `listener`, in the order of the entries:
 *
 *   decoded(entry, image)   the image can be drawn
 *   lost(entry, message)    this entry gives no image
 *   failed(message, reclaimed)   the decoder failed and cannot be used any more
 *   stalled(message)        the decoder gives no pictures and cannot be used any more
 *
 * A browser may take back the decoder of a hidden page, or an idle one (`reclaimed`). That says nothing of the codec, so no other one is
 * chosen. Another decoder is opened for the next entry, and not sooner: until then the browser has what it wanted.
 */

import type { Color, TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";
import { CODEC_STRINGS, RECLAIMED } from "./codec-strings.ts";

/** What a decoder needs to know of an entry. The listener gets the caller's own entry back. */
export interface DecoderEntry extends Pick<Packet, "ptsUs" | "payload"> {
  readonly track: TrackDescription;
  /** Whether it can be decoded without the entries before it. */
  readonly key: boolean;
}

/** A picture to draw. `close` frees it, if it has to be freed. */
export type DecodedImage = (ImageBitmap | ImageData | VideoFrame) & { close?(): void };

export interface DecoderListener<Entry> {
  decoded(entry: Entry, image: DecodedImage): void;
  lost(entry: Entry, message: string): void;
  failed(message: string, reclaimed?: boolean): void;
  stalled(message: string): void;
}

/** One decoder, for one track. */
export interface Decoder<Entry> {
  readonly hasRoom: boolean;
  readonly isEmpty: boolean;
  /** Whether it has given a picture. */
  readonly hasOutput: boolean;
  feed(entry: Entry): void;
  /** Closes the decoder and returns its unanswered entries. */
  close(): Entry[];
}

/** Codecs of independent pictures, and those that WebCodecs decodes. */
type Still = "jpeg" | "raw";
const DEFAULT_CODEC_STRINGS = { ...CODEC_STRINGS, lossless: "avc1.F4001F" };
type CodedVideo = keyof typeof DEFAULT_CODEC_STRINGS;

const MAX_PENDING = 3; // entries in a decoder at a time
const MAX_PENDING_AT_FIRST = 8; // until its first picture; a decoder without a picture from so many has stalled
const PATIENCE = 1000;
const LONGEST_FRAME = 40;
const STILLS: Readonly<Record<Still, (entry: DecoderEntry) => Promise<DecodedImage>>> = { jpeg: decodeJpeg, raw: decodeRaw };

export const isStill = (codec: string | null): codec is Still => codec !== null && Object.hasOwn(STILLS, codec);
const isVideo = (codec: string | null): codec is CodedVideo => codec !== null && Object.hasOwn(DEFAULT_CODEC_STRINGS, codec);

/** Opens the decoder for a track; throws if this browser has none. */
export function openDecoder<Entry extends DecoderEntry>(
  track: TrackDescription,
  software: boolean,
  listener: DecoderListener<Entry>,
): Decoder<Entry> {
  const { codec } = track;
  if (isStill(codec)) return new StillDecoder(STILLS[codec], listener);
  if (globalThis.VideoDecoder === undefined || !isVideo(codec)) throw new TypeError(`this page cannot show ${codec}`);
  return new ChunkDecoder(track, track.codec_string ?? DEFAULT_CODEC_STRINGS[codec], software, listener);
}

/** Decodes independent pictures (JPEG, raw), one at a time. */
class StillDecoder<Entry extends DecoderEntry> implements Decoder<Entry> {
  #decode: (entry: DecoderEntry) => Promise<DecodedImage>;
  #listener: DecoderListener<Entry>;
  readonly hasOutput = true;
  /** What is decoded; null: nothing, or it was closed. */
  #entry: Entry | null = null;

  constructor(decode: (entry: DecoderEntry) => Promise<DecodedImage>, listener: DecoderListener<Entry>) {
    this.#decode = decode;
    this.#listener = listener;
  }

  get hasRoom(): boolean {
    return this.isEmpty;
  }

  get isEmpty(): boolean {
    return this.#entry === null;
  }

  async feed(entry: Entry): Promise<void> {
    this.#entry = entry;
    let image: DecodedImage | null = null;
    let trouble = "";
    try {
      image = await this.#decode(entry);
    } catch (error) {
      trouble = (error as Error).message;
    }
    if (this.isEmpty) {
      image?.close?.();
      return;
    }
    this.#entry = null;
    if (image === null) this.#listener.lost(entry, trouble);
    else this.#listener.decoded(entry, image);
  }

  close(): Entry[] {
    const rest = this.#entry === null ? [] : [this.#entry];
    this.#entry = null;
    return rest;
  }
}

async function decodeJpeg({ payload }: DecoderEntry): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(new Blob([payload], { type: "image/jpeg" }));
  } catch (error) {
    throw new TypeError(`not a JPEG that this browser can decode: ${(error as Error).message}`);
  }
}

/**
 * Waits for the next animation frame first, which a hidden page does not get: the pass over the pixels would otherwise leave a fast stream no
 * time for anything else.
 */
async function decodeRaw({ payload, track: { width, height } }: DecoderEntry): Promise<ImageData> {
  if (width === null || height === null || payload.length !== width * height * 3) {
    throw new TypeError(`${payload.length} bytes are not an RGB picture of ${width}×${height}`);
  }
  await new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, LONGEST_FRAME);
  });
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  // The payload has three bytes for each pixel: that was checked above.
  for (let i = 0, p = 0; i < pixels.length; i++, p += 3) {
    pixels[i] = 0xff000000 | ((payload[p + 2] as number) << 16) | ((payload[p + 1] as number) << 8) | (payload[p] as number);
  }
  return image;
}

/** Decodes codecs that predict between frames, with WebCodecs. No `description` in its configuration means Annex B for H.264. */
class ChunkDecoder<Entry extends DecoderEntry> implements Decoder<Entry> {
  #listener: DecoderListener<Entry>;
  #decoder: VideoDecoder | null;
  #pending = new Map<number, Entry>();
  #timestamp = -1;
  hasOutput = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #checks = 0;

  constructor(
    { width, height, coded_width, coded_height, color }: TrackDescription,
    codec: string,
    software: boolean,
    listener: DecoderListener<Entry>,
  ) {
    this.#listener = listener;
    this.#decoder = new VideoDecoder({
      output: (image) => this.#output(image),
      error: ({ name, message }) => this.#end(() => listener.failed(message, name === RECLAIMED)),
    });
    const size = width && height ? { codedWidth: coded_width ?? width, codedHeight: coded_height ?? height } : {};
    this.#decoder.configure({
      codec,
      ...size,
      hardwareAcceleration: software ? "prefer-software" : "no-preference",
      optimizeForLatency: true,
      // Without a colour space a browser assumes BT.709, and saturated colours come out wrong.
      ...(color && { colorSpace: colorSpaceOf(color) }),
    });
  }

  get hasRoom(): boolean {
    return this.#pending.size < (this.hasOutput ? MAX_PENDING : MAX_PENDING_AT_FIRST);
  }

  get isEmpty(): boolean {
    return this.#pending.size === 0;
  }

  feed(entry: Entry): void {
    this.#timestamp = Math.max(this.#timestamp + 1, entry.ptsUs); // unique even if presentation times repeat
    this.#pending.set(this.#timestamp, entry);
    if (this.#timer === undefined) this.#watch();
    try {
      this.#decoder?.decode(new EncodedVideoChunk({ type: entry.key ? "key" : "delta", timestamp: this.#timestamp, data: entry.payload }));
    } catch (error) {
      this.#end(() => this.#listener.failed((error as Error).message));
    }
  }

  close(): Entry[] {
    const rest = [...this.#pending.values()];
    this.#end(() => {});
    this.#pending.clear();
    return rest;
  }

  #output(image: VideoFrame): void {
    const entry = this.#pending.get(image.timestamp);
    if (this.#decoder === null || entry === undefined) {
      image.close();
      return;
    }
    this.hasOutput = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#checks = 0;
    for (const [stamp, older] of this.#pending) {
      if (stamp > image.timestamp) break;
      this.#pending.delete(stamp);
      if (older !== entry) this.#listener.lost(older, "the decoder gave no picture");
    }
    if (this.#decoder !== null && this.#pending.size > 0) this.#watch();
    this.#listener.decoded(entry, image);
  }

  /** Allows a full decoder one second for a picture, and one with room two, because it may be waiting for more input. */
  #watch(): void {
    const since = performance.now();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const waited = performance.now() - since;
      if (waited > 1.5 * PATIENCE)
        this.#watch(); // the whole page was suspended
      else if (this.hasRoom && ++this.#checks < 2) this.#watch();
      else this.#end(() => this.#listener.stalled(`${this.#pending.size} frames went in and none came out`));
    }, PATIENCE);
  }

  #end(then: () => void): void {
    clearTimeout(this.#timer);
    if (this.#decoder === null) return;
    if (this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
    then();
  }
}

function colorSpaceOf({ matrix, primaries, transfer, full_range: fullRange }: Color): VideoColorSpaceInit {
  return { matrix, primaries, transfer, fullRange } as VideoColorSpaceInit;
}
