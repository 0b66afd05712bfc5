/** The codecs that this browser can decode, and the fallback for a codec that does not work. */

const VIDEO = { h264: "avc1.42E01F", vp8: "vp8", vp9: "vp09.00.10.08", av1: "av01.0.04M.08" }; // best first

type Support<Config> = { isConfigSupported(config: Config): Promise<{ supported?: boolean }> };

/** What this module needs of the global scope. */
export interface DecoderScope {
  readonly VideoDecoder?: Support<VideoDecoderConfig>;
  readonly AudioDecoder?: Support<AudioDecoderConfig>;
}

/** The next step after a decoder failed: decode the same codec in software, or request other codecs from the server. */
export type FallbackStep = { readonly software: true; readonly video?: never } | { readonly software?: never; readonly video: string[] };

/** Video codecs, best first. Only a secure context (https, localhost) has WebCodecs; without it only JPEG remains. */
export async function decodableVideo(scope: DecoderScope = globalThis): Promise<string[]> {
  const answers = await Promise.all(Object.values(VIDEO).map((codec) => supports(scope.VideoDecoder, { codec })));
  return [...Object.keys(VIDEO).filter((_, i) => answers[i]), "jpeg"];
}

/** Audio codecs, best first. */
export async function decodableAudio(scope: DecoderScope = globalThis): Promise<string[]> {
  const opus = await supports(scope.AudioDecoder, { codec: "opus", sampleRate: 48_000, numberOfChannels: 1 });
  return opus ? ["opus", "pcm_s16le"] : ["pcm_s16le"];
}

async function supports<Config>(decoder: Support<Config> | undefined, config: Config): Promise<boolean> {
  try {
    return (await decoder?.isConfigSupported(config))?.supported === true;
  } catch {
    return false;
  }
}

/**
 * Chooses the next step after a decoder failed or stalled: decode in software, then request VP8, then JPEG. `codecs` are
 * those that this browser can decode. The page never tries a failed codec again.
 */
export class DecoderFallback {
  #codecs: readonly (string | null)[];
  #failed = new Set<string | null>();
  software: boolean = false;
  count: number = 0;

  constructor(codecs: readonly string[]) {
    this.#codecs = codecs;
  }

  /**
   * `codec` failed, with a software decoder or not. Returns {software: true}: decode the same codec in software; {video}:
   * request these codecs from the server; null: do nothing, because another track has already caused a fallback, or no
   * simpler codec exists.
   */
  next(codec: string | null, software: boolean): FallbackStep | null {
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
