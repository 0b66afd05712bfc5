/** The codecs that this browser can decode, and the fallback for a codec that does not work. */

const VIDEO = { h264: "avc1.42E01F", vp8: "vp8", vp9: "vp09.00.10.08", av1: "av01.0.04M.08" }; // best first
const ALL = [...Object.keys(VIDEO), "lossless", "jpeg", "raw", "none"];

/** Video codecs, best first. Only a secure context (https, localhost) has WebCodecs; without it only JPEG remains. */
export async function decodableVideo(scope = globalThis) {
  const answers = await Promise.all(Object.values(VIDEO).map((codec) => supports(scope.VideoDecoder, { codec })));
  return [...Object.keys(VIDEO).filter((_, i) => answers[i]), "jpeg"];
}

/** Audio codecs, best first. */
export async function decodableAudio(scope = globalThis) {
  const opus = await supports(scope.AudioDecoder, { codec: "opus", sampleRate: 48_000, numberOfChannels: 1 });
  return opus ? ["opus", "pcm_s16le"] : ["pcm_s16le"];
}

/** The codecs in the list `names` ("h264,jpeg") that a page may request. */
export function parseCodecs(names) {
  return (names ?? "").split(",").filter((codec) => ALL.includes(codec));
}

async function supports(decoder, config) {
  try {
    return (await decoder.isConfigSupported(config)).supported === true;
  } catch {
    return false;
  }
}

/**
 * Chooses the next step after a decoder failed or stalled: decode in software, then request VP8, then JPEG. `codecs` are
 * those that this browser can decode. The page never tries a failed codec again.
 */
export class DecoderFallback {
  #codecs;
  #failed = new Set();
  software = false;
  count = 0;

  constructor(codecs) {
    this.#codecs = codecs;
  }

  /**
   * `codec` failed, with a software decoder or not. Returns {software: true}: decode the same codec in software; {video}:
   * request these codecs from the server; null: do nothing, because another track has already caused a fallback, or no
   * simpler codec exists.
   */
  next(codec, software) {
    if (codec === "jpeg" || codec === "raw" || this.#failed.has(codec)) return null;
    if (!software && this.#codecs.includes(codec)) {
      if (!this.software) this.count += 1;
      this.software = true;
      return { software: true };
    }
    this.#failed.add(codec);
    this.count += 1;
    return { video: this.#codecs.includes("vp8") && !this.#failed.has("vp8") ? ["vp8", "jpeg"] : ["jpeg"] };
  }
}
