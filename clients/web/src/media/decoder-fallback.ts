/** What to do after a decoder failed. */

/** The next step after a decoder failed: decode the same codec in software, or request other codecs from the server. */
export type FallbackStep = { readonly software: true; readonly video?: never } | { readonly software?: never; readonly video: string[] };

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
