/** Makes an MP4 file of pictures that were shown. */
import { BufferTarget, EncodedPacket, EncodedVideoPacketSource, Mp4OutputFormat, Output } from "mediabunny";
import type { Frame } from "../src/index.ts";
import { CLIP } from "./strings.ts";

/** What MP4 files may have and browsers can encode, best known first: by the name in the file. */
const CODECS = [
  ["avc", "avc1.640034"],
  ["avc", "avc1.42e034"],
  ["vp9", "vp09.00.51.08"],
  ["av1", "av01.0.12M.08"],
] as const;
const BITS_PER_PIXEL = 6; // and second: 5.5 Mbit/s for 1280×720
const LEAST_BITRATE = 2_000_000;
const KEYFRAME_EACH = 2_000_000; // µs, so that a player can seek
const MOST_WAITING = 4;

/** Encodes `frames`, and closes them. Their times count from the first one. Throws if there is none, or this browser encodes no MP4. */
export async function makeClip(frames: AsyncIterable<Frame>): Promise<Blob> {
  let clip: Clip | null = null;
  try {
    for await (const { image, ptsUs: pts, [Symbol.dispose]: close } of frames) {
      try {
        clip ??= await Clip.begin(...sizeOf(image), pts);
        await clip.add(image, pts);
      } finally {
        close();
      }
    }
    if (clip === null) throw new TypeError(CLIP.empty);
    return await clip.finish();
  } finally {
    clip?.close();
  }
}

class Clip {
  #output: Output<Mp4OutputFormat, BufferTarget>;
  #encoder: VideoEncoder;
  #canvas: OffscreenCanvas;
  #context: OffscreenCanvasRenderingContext2D;
  #from: number;
  #lastKey = Number.NEGATIVE_INFINITY;
  #written: Promise<void> = Promise.resolve();
  #trouble: Error | null = null;

  static async begin(width: number, height: number, from: number): Promise<Clip> {
    for (const [name, codec] of CODECS) {
      const bitrate = Math.max(LEAST_BITRATE, width * height * BITS_PER_PIXEL);
      const config: VideoEncoderConfig = { codec, width, height, bitrate, ...(name === "avc" && { avc: { format: "avc" } }) };
      if (!(await VideoEncoder.isConfigSupported(config)).supported) continue;
      const source = new EncodedVideoPacketSource(name);
      const clip = new Clip(config, source, from);
      clip.#output.addVideoTrack(source);
      await clip.#output.start();
      return clip;
    }
    throw new TypeError(CLIP.noMp4);
  }

  private constructor(config: VideoEncoderConfig, source: EncodedVideoPacketSource, from: number) {
    this.#from = from;
    this.#output = new Output({ format: new Mp4OutputFormat({ fastStart: "in-memory" }), target: new BufferTarget() });
    this.#canvas = new OffscreenCanvas(config.width, config.height);
    this.#context = this.#canvas.getContext("2d", { alpha: false }) as OffscreenCanvasRenderingContext2D;
    this.#encoder = new VideoEncoder({
      output: (chunk, meta) => {
        this.#written = this.#written.then(() => source.add(EncodedPacket.fromEncodedChunk(chunk), meta));
      },
      error: (error) => {
        this.#trouble = error;
      },
    });
    this.#encoder.configure(config);
  }

  /** Drawn again: the picture may have an odd size, which H.264 does not take. */
  async add(image: VideoFrame | ImageBitmap, pts: number): Promise<void> {
    if (this.#trouble !== null) throw this.#trouble;
    const [width, height] = sizeOf(image); // a slow link makes it smaller on the way
    this.#context.setTransform(this.#canvas.width / width, 0, 0, this.#canvas.height / height, 0, 0);
    this.#context.drawImage(image, 0, 0);
    const timestamp = pts - this.#from;
    const frame = new VideoFrame(this.#canvas, { timestamp });
    const keyFrame = timestamp - this.#lastKey >= KEYFRAME_EACH;
    if (keyFrame) this.#lastKey = timestamp;
    this.#encoder.encode(frame, { keyFrame });
    frame.close();
    while (this.#encoder.encodeQueueSize > MOST_WAITING)
      await new Promise((resolve) => this.#encoder.addEventListener("dequeue", resolve, { once: true }));
  }

  async finish(): Promise<Blob> {
    await this.#encoder.flush();
    await this.#written;
    await this.#output.finalize();
    return new Blob([this.#output.target.buffer as ArrayBuffer], { type: "video/mp4" });
  }

  close(): void {
    if (this.#encoder.state !== "closed") this.#encoder.close();
  }
}

const even = (length: number): number => Math.max(2, length & ~1);

const sizeOf = (image: VideoFrame | ImageBitmap): [number, number] =>
  "displayWidth" in image ? [even(image.displayWidth), even(image.displayHeight)] : [even(image.width), even(image.height)];
