/** Which codecs this browser can decode, and what to ask for when one of them turns out not to work. */

const VIDEO = { h264: "avc1.42E01F", vp8: "vp8", vp9: "vp09.00.10.08", av1: "av01.0.04M.08" }; // best first
const ALL = [...Object.keys(VIDEO), "lossless", "jpeg", "raw", "none"];

/** Codecs for video, best first. Only a secure context (https, localhost) has WebCodecs; anywhere else it is JPEG. */
export async function decodableVideo(scope = globalThis) {
  const answers = await Promise.all(Object.values(VIDEO).map((codec) => supports(scope.VideoDecoder, { codec })));
  return [...Object.keys(VIDEO).filter((_, i) => answers[i]), "jpeg"];
}

/** Codecs for sound, best first. */
export async function decodableAudio(scope = globalThis) {
  const opus = await supports(scope.AudioDecoder, { codec: "opus", sampleRate: 48_000, numberOfChannels: 1 });
  return opus ? ["opus", "pcm_s16le"] : ["pcm_s16le"];
}

/** The codecs named in `words` ("h264,jpeg") that a page may ask for. */
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
 * What a page does about a decoder that fails or holds pictures back: it decodes in software, then asks for VP8, then for
 * JPEG. `codecs` are those that this browser can decode. What did not work is not tried again by this page.
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
   * `codec` did not work, decoded in software or not. {software: true}: decode the same in software; {video}: ask the
   * server for these; null: nothing, since another track's trouble has led on already, or there is nothing below.
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
