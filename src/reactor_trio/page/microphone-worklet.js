/** Runs on the browser's audio thread: cuts what comes in into blocks of `length` samples of 16 bits. */
class PcmBlocks extends AudioWorkletProcessor {
  #block;
  #filled = 0;
  #first = 0;

  constructor({ processorOptions: { length } }) {
    super();
    this.#block = new Int16Array(length);
  }

  process([[samples]]) {
    // Without a source there is no channel: silence is not made up, and the next samples follow on.
    for (const sample of samples ?? []) {
      const clipped = Math.max(-1, Math.min(1, sample));
      this.#block[this.#filled++] = Math.round(clipped * 32767);
      if (this.#filled === this.#block.length) this.#post();
    }
    return true;
  }

  #post() {
    const { length } = this.#block;
    this.port.postMessage({ samples: this.#block, first: this.#first }, [this.#block.buffer]);
    this.#block = new Int16Array(length);
    this.#first += length;
    this.#filled = 0;
  }
}

registerProcessor("pcm-blocks", PcmBlocks);
