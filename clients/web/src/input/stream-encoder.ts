/**
 * Encodes pictures for an input track with the browser's video encoder, in a tenth of the bytes of JPEG.
 *
 * Each packet refers to the one before, so the page sends every encoded packet and skips pictures only before encoding.
 */
import { RECLAIMED } from "../media/codec-strings.ts";
import type { FrameMeta, InputSink } from "./capture.ts";

const BITS_PER_PIXEL = 3.6; // per second: 1.1 Mbit/s for 640×480
const MAX_PENDING = 3;
const PATIENCE = 2000; // ms that a full encoder may take for a picture

/** A codec of the protocol, and how the browser encodes it. */
export interface EncoderChoice {
  readonly codec: string;
  readonly config: VideoEncoderConfig;
}

/** The WebCodecs configuration for a codec of the protocol; null if pictures of this size are not supported. */
export function configOf(codec: string, width: number, height: number, rate: number): VideoEncoderConfig | null {
  const config: Omit<VideoEncoderConfig, "codec"> = {
    width,
    height,
    framerate: rate,
    bitrate: Math.round(width * height * BITS_PER_PIXEL),
    latencyMode: "realtime",
  };
  switch (codec) {
    case "h264": {
      if (width % 2 || height % 2) return null;
      const level = width * height <= 1280 * 720 ? "1F" : "33";
      return { ...config, codec: `avc1.42E0${level}`, avc: { format: "annexb" } };
    }
    case "vp8":
      return { ...config, codec: "vp8" };
    default:
      return null;
  }
}

/** The first of `codecs` that this browser can encode, as {codec, config}; null if there is none. */
export async function chooseEncoder(
  codecs: readonly string[],
  width: number,
  height: number,
  rate: number,
  Encoder: typeof VideoEncoder | undefined = globalThis.VideoEncoder,
): Promise<EncoderChoice | null> {
  if (!Encoder) return null;
  for (const codec of codecs) {
    const config = configOf(codec, width, height, rate);
    try {
      if (config && (await Encoder.isConfigSupported(config)).supported) return { codec, config };
    } catch {
      // not a configuration that this browser knows
    }
  }
  return null;
}

/**
 * Encodes canvases until it is closed. `deliver(number, at, meta, payload, key)` gets each packet; after `failed()` the encoder is unusable.
 * One that the browser takes back, while the page is hidden and gives no pictures, is opened again with the next picture.
 */
export class StreamEncoder {
  readonly codec: string;
  #open: () => VideoEncoder;
  #encoder: VideoEncoder;
  #pending = new Map<number, { readonly number: number; readonly at: number }>();
  #fullSince: number | null = null;
  #failed: () => void;
  #timestamp = -1;

  constructor(
    { codec, config }: EncoderChoice,
    deliver: InputSink["deliver"],
    failed: () => void,
    Encoder: typeof VideoEncoder = globalThis.VideoEncoder,
  ) {
    this.codec = codec;
    this.#failed = failed;
    let meta: FrameMeta = { codec, width: config.width, height: config.height };
    const init: VideoEncoderInit = {
      output: (chunk, { decoderConfig } = {}) => {
        meta = { ...meta, ...colourOf(decoderConfig?.colorSpace) };
        const given = this.#pending.get(chunk.timestamp);
        // The encoder has dropped earlier pictures that it has not delivered.
        for (const stamp of this.#pending.keys()) if (stamp <= chunk.timestamp) this.#pending.delete(stamp);
        this.#fullSince = null;
        if (!given) return;
        const payload = new Uint8Array(chunk.byteLength);
        chunk.copyTo(payload);
        deliver(given.number, given.at, meta, payload, chunk.type === "key");
      },
      error: ({ name }) => (name === RECLAIMED ? this.#pending.clear() : this.#fail()),
    };
    this.#open = () => {
      const encoder = new Encoder(init);
      encoder.configure(config);
      return encoder;
    };
    this.#encoder = this.#open();
  }

  /** Whether the encoder is full. An encoder that stays full for `PATIENCE` has stalled and counts as failed. */
  busy(now: number): boolean {
    if (this.#pending.size < MAX_PENDING && this.#encoder.encodeQueueSize < MAX_PENDING) return false;
    this.#fullSince ??= now;
    if (now - this.#fullSince > PATIENCE) this.#fail();
    return true;
  }

  /** Encodes the picture on `canvas`, captured at `at`, in milliseconds. */
  encode(
    canvas: HTMLCanvasElement | OffscreenCanvas,
    number: number,
    at: number,
    key: boolean,
    Frame: typeof VideoFrame = globalThis.VideoFrame,
  ): void {
    this.#timestamp = Math.max(this.#timestamp + 1, Math.round(at * 1000));
    const frame = new Frame(canvas, { timestamp: this.#timestamp });
    this.#pending.set(this.#timestamp, { number, at });
    try {
      if (this.#encoder.state === "closed") this.#encoder = this.#open();
      this.#encoder.encode(frame, { keyFrame: key });
    } catch {
      this.#fail();
    }
    frame.close();
  }

  close(): void {
    this.#failed = () => {};
    if (this.#encoder.state !== "closed") this.#encoder.close();
  }

  #fail(): void {
    const failed = this.#failed;
    this.close();
    failed();
  }
}

function colourOf(space: VideoColorSpaceInit | undefined): { readonly matrix?: string; readonly full_range?: boolean } {
  const meta: { matrix?: string; full_range?: boolean } = {};
  if (space?.matrix) meta.matrix = space.matrix;
  if (typeof space?.fullRange === "boolean") meta.full_range = space.fullRange;
  return meta;
}
