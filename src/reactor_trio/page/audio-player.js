/**
 * Plays the audio tracks of a session, off until the user turns it on: a browser lets a page make sound only after a
 * gesture, and while it is off nothing is decoded and nothing runs. When it plays, `heard` is the clock for the pictures.
 */
import { AudioClock } from "./audio-clock.js";
import { OpusDecoder } from "./opus-decoder.js";

export class AudioPlayer {
  #tracks = new Map();
  #newest = new Map();
  #decoders = new Map();
  #context = null;
  #node = null;
  #gain = null;
  #clock = new AudioClock();
  #report = null;
  #lost = 0;
  #enabled = false;
  #volume = 1;
  #listener;

  /** `listener` is {changed(), failed(message)}; changed after each change of `state`. */
  constructor(listener) {
    this.#listener = listener;
  }

  /** "off", "on", or "starting" while the browser does not play yet. */
  get state() {
    if (!this.#enabled) return "off";
    return this.#node && this.#context.state === "running" ? "on" : "starting";
  }

  /** {buffer, target, underruns, lost}: ms of sound that wait and shall wait, late blocks, blocks lost on the way. */
  get statistics() {
    const buffer = this.state === "on" ? this.#clock.buffered(this.#context.currentTime) : null;
    return {
      buffer: buffer === null ? null : buffer * 1000,
      target: buffer === null ? null : this.#report.target * 1000,
      underruns: this.#report?.underruns ?? 0,
      lost: this.#lost,
    };
  }

  /** A session begins with these tracks; those that are no sound to be heard are left alone. */
  beginSession(tracks) {
    this.#tracks = new Map(tracks.filter(({ kind, direction }) => kind === "audio" && direction === "out").map((track) => [track.index, track]));
    this.#newest.clear();
    this.#lost = 0;
    this.#reset();
    return this.#tracks.size > 0;
  }

  /** A track has a new description from the next frame on. */
  describe(track) {
    if (!this.#tracks.has(track.index)) return;
    this.#tracks.set(track.index, track);
    this.#decoders.get(track.index)?.close();
    this.#decoders.delete(track.index);
  }

  /** Takes a frame if it belongs to an audio track, and says whether it did. */
  accept(frame) {
    const { track, seq } = frame;
    const description = this.#tracks.get(track);
    if (description === undefined) return false;
    const before = this.#newest.get(track);
    if (before !== undefined && seq > before + 1) this.#lost += seq - before - 1;
    this.#newest.set(track, seq);
    if (this.state !== "on") return true;
    try {
      if (description.codec === "opus") this.#decoder(description).decode(frame);
      else this.#play(track, frame.ptsUs / 1e6, description.sample_rate, toInt16(frame.payload, description.codec));
    } catch (error) {
      this.#tracks.delete(track); // said once; its other blocks would be no better
      this.#listener.failed(`${description.name}, block ${seq}: ${error.message}`);
    }
    return true;
  }

  /** The presentation time (ms) that is heard at `now` (ms, as `performance.now()`); null while no sound is. */
  timeAt(now) {
    if (this.state !== "on") return null;
    const { contextTime, performanceTime } = this.#context.getOutputTimestamp();
    if (!performanceTime) return null; // nothing has left yet
    const position = this.#clock.positionAt(contextTime + (now - performanceTime) / 1000);
    return position === null ? null : position * 1000;
  }

  /** Turns it on, which the browser allows in answer to a gesture only, or off. */
  async setEnabled(on) {
    this.#enabled = on;
    this.#listener.changed();
    try {
      if (on) await this.#start();
      else await this.#context?.suspend();
    } catch (error) {
      this.#enabled = false;
      if (this.#node === null) {
        await this.#context?.close();
        this.#context = null; // the next try begins anew
      }
      this.#listener.failed(`sound: ${error.message}`);
    }
    this.#listener.changed();
  }

  /** A stream of what is played, whatever its volume, for a recording; null while the sound is not on. */
  captureStream() {
    if (this.state !== "on") return null;
    const destination = new MediaStreamAudioDestinationNode(this.#context, { channelCount: 1 });
    this.#node.connect(destination);
    return { stream: destination.stream, close: () => this.#node.disconnect(destination) };
  }

  /** From 0 to 1, as the ear has it: the square is the amplitude. */
  set volume(value) {
    this.#volume = value;
    this.#gain?.gain.setTargetAtTime(value ** 2, this.#context.currentTime, 0.015);
  }

  async #start() {
    if (this.#context === null) {
      const [track] = this.#tracks.values();
      this.#context = openContext(track?.sample_rate);
      this.#context.addEventListener("statechange", () => this.#listener.changed());
      await this.#context.audioWorklet.addModule(new URL("./audio-player-worklet.js", import.meta.url));
      this.#gain = new GainNode(this.#context, { gain: this.#volume ** 2 });
      this.#gain.connect(this.#context.destination);
      const node = new AudioWorkletNode(this.#context, "audio-player", { numberOfInputs: 0, outputChannelCount: [1] });
      node.port.onmessage = ({ data }) => {
        this.#report = data;
        this.#clock.addReport(data);
      };
      node.addEventListener("processorerror", () => this.#listener.failed("sound: the audio thread failed"));
      node.connect(this.#gain);
      this.#node = node;
    }
    this.#reset(); // what came before it was turned off is not to be heard now
    if (this.#enabled) await this.#context.resume();
  }

  #decoder(track) {
    let decoder = this.#decoders.get(track.index);
    if (decoder === undefined) {
      const samples = (...block) => this.#play(track.index, ...block);
      decoder = new OpusDecoder(track, samples, (message) => {
        this.#tracks.delete(track.index);
        this.#listener.failed(`${track.name}: ${message}`);
      });
      this.#decoders.set(track.index, decoder);
    }
    return decoder;
  }

  #play(track, pts, rate, samples) {
    if (this.state === "on") this.#node.port.postMessage({ track, pts, rate, samples }, [samples.buffer]);
  }

  #reset() {
    for (const decoder of this.#decoders.values()) decoder.close();
    this.#decoders.clear();
    this.#clock.clear();
    this.#node?.port.postMessage("reset");
  }
}

function toInt16(payload, codec) {
  if (codec !== "pcm_s16le" || payload.length % 2) throw new TypeError(`${payload.length} bytes of ${codec} are no 16-bit samples`);
  return new Int16Array(payload.slice().buffer);
}

/** At the track's own rate, so that nothing is resampled; at the device's where the browser does not take that one. */
function openContext(sampleRate) {
  try {
    return new AudioContext({ sampleRate, latencyHint: "interactive" });
  } catch {
    return new AudioContext({ latencyHint: "interactive" });
  }
}
