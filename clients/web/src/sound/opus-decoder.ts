/** Decodes the Opus packets of one audio track to samples. */
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";

const PACKET_US = 20_000;

export class OpusDecoder {
  #decoder: AudioDecoder;
  #times: number[] = [];

  /** `samples(pts, rate, samples)` gets each decoded block (seconds, Hz, Float32Array); `failed(error)` means that the decoder has failed. */
  constructor(
    { codec_string, sample_rate }: Pick<TrackDescription, "codec_string" | "sample_rate">,
    samples: (pts: number, rate: number, samples: Float32Array<ArrayBuffer>) => void,
    failed: (error: Error) => void,
  ) {
    this.#decoder = new AudioDecoder({
      output: (data) => {
        // Each packet gives one block, or none. Some decoders' own timestamps ignore gaps: where one is of no packet, the oldest is meant.
        const pts = this.#times.splice(0, this.#times.indexOf(data.timestamp) + 1 || 1).pop() as number;
        const block = new Float32Array(data.numberOfFrames);
        data.copyTo(block, { planeIndex: 0, format: "f32-planar" });
        const { sampleRate } = data;
        data.close();
        samples(pts / 1e6, sampleRate, block);
      },
      error: failed,
    });
    this.#decoder.configure({ codec: codec_string ?? "opus", sampleRate: sample_rate ?? 48_000, numberOfChannels: 1 });
  }

  /** Decodes a wire packet: Opus packets of 20 ms each, with their lengths in `meta.sizes`, the first one at `ptsUs`. */
  decode({ ptsUs, meta, payload }: Pick<Packet, "ptsUs" | "meta" | "payload">): void {
    const sizes = meta?.sizes ?? [];
    if (!Array.isArray(sizes) || sizes.reduce((sum: number, size: number) => sum + size, 0) !== payload.length) {
      throw new TypeError("the lengths of its packets do not add up to it");
    }
    let at = 0;
    sizes.forEach((size: number, i) => {
      const timestamp = ptsUs + i * PACKET_US;
      this.#times.push(timestamp);
      this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, data: payload.subarray(at, at + size) }));
      at += size;
    });
  }

  close(): void {
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }
}
