/**
 * The audio thread's side of `audio-player.ts`. It receives `{track, pts, rate, samples}` (seconds, Hz, samples of 16 bits or
 * floats) and `"reset"`. It reports the state of its jitter buffer at an exact time of the context, ten times a second and after
 * each jump of the playhead.
 */

import { AudioJitterBuffer } from "../sound/audio-jitter-buffer.ts";
import type { SoundBlock, SoundMessage, SoundReport } from "../sound/worklet-messages.ts";

// Of the audio thread alone; elsewhere these names mean nothing.
declare const sampleRate: number;
declare const currentTime: number;

const REPORT_EVERY = 0.1;

const asFloats = (samples: SoundBlock["samples"]): Float32Array =>
  samples instanceof Float32Array ? samples : Float32Array.from(samples, (value) => value / 32768);

class AudioPlayerProcessor extends AudioWorkletProcessor {
  #buffer = new AudioJitterBuffer(sampleRate);
  #seeks = 0;
  #reported = -Infinity;

  constructor() {
    super();
    this.port.onmessage = ({ data }: MessageEvent<SoundMessage>) => {
      if (data === "reset") {
        this.#buffer = new AudioJitterBuffer(sampleRate);
        this.#seeks = -1;
      } else {
        this.#buffer.push(data.track, data.pts, asFloats(data.samples), data.rate);
      }
    };
  }

  process(_inputs: readonly (readonly Float32Array[])[], [channels]: readonly (readonly Float32Array[])[]): boolean {
    const state = this.#buffer.state;
    if (state.seeks !== this.#seeks || currentTime - this.#reported >= REPORT_EVERY) {
      this.port.postMessage({ time: currentTime, ...state } satisfies SoundReport);
      this.#seeks = state.seeks;
      this.#reported = currentTime;
    }
    const output = channels?.[0]; // the node has one output of one channel
    if (output !== undefined) this.#buffer.pull(output);
    return true;
  }
}

registerProcessor("audio-player", AudioPlayerProcessor);
