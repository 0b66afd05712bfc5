/** Runs on the browser's audio thread: divides its input into blocks of `length` samples of 16 bits. */

import type { PcmBlock } from "../input/microphone.ts";

class PcmBlocks extends AudioWorkletProcessor {
  #block: Int16Array<ArrayBuffer>;
  #filled = 0;
  #first = 0;

  constructor({ processorOptions: { length } }: { readonly processorOptions: { readonly length: number } }) {
    super();
    this.#block = new Int16Array(length);
  }

  process([channels]: readonly (readonly Float32Array[])[]): boolean {
    // Without a source there is no channel. The processor inserts no silence; the next samples follow directly.
    for (const sample of channels?.[0] ?? []) {
      const clipped = Math.max(-1, Math.min(1, sample));
      this.#block[this.#filled++] = Math.round(clipped * 32767);
      if (this.#filled === this.#block.length) this.#post();
    }
    return true;
  }

  #post(): void {
    const { length } = this.#block;
    this.port.postMessage({ samples: this.#block, first: this.#first } satisfies PcmBlock, [this.#block.buffer]);
    this.#block = new Int16Array(length);
    this.#first += length;
    this.#filled = 0;
  }
}

registerProcessor("pcm-blocks", PcmBlocks);
