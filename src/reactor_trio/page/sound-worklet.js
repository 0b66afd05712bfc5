/**
 * The audio thread's side of `sound.js`. It hears `{track, pts, rate, samples}` (seconds, Hz, samples of 16 bits or floats) and
 * `"reset"`, and reports ten times a second, and whenever the playhead was put elsewhere, how its playout stands at an
 * exact time of the context.
 */
import { Playout } from "./playout.js";

const REPORT_EVERY = 0.1;

const asFloats = (samples) => (samples instanceof Float32Array ? samples : Float32Array.from(samples, (value) => value / 32768));

class Sound extends AudioWorkletProcessor {
  #playout = new Playout(sampleRate);
  #leaps = 0;
  #reported = -Infinity;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => {
      if (data === "reset") {
        this.#playout = new Playout(sampleRate);
        this.#leaps = -1;
      } else {
        this.#playout.push(data.track, data.pts, asFloats(data.samples), data.rate);
      }
    };
  }

  process(_inputs, [[output]]) {
    const state = this.#playout.state;
    if (state.leaps !== this.#leaps || currentTime - this.#reported >= REPORT_EVERY) {
      this.port.postMessage({ time: currentTime, ...state });
      this.#leaps = state.leaps;
      this.#reported = currentTime;
    }
    this.#playout.pull(output);
    return true;
  }
}

registerProcessor("sound", Sound);
