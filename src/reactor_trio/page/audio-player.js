/**
 * Plays the audio tracks of a session. The player is off until the user turns it on, because a browser lets a page make sound
 * only after a gesture. While it is off, it decodes nothing and opens no device. While it plays, `timeAt` is the clock for the
 * pictures.
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

  /** `listener` is {changed(), failed(message)}; `changed` is called after each change of `state`. */
  constructor(listener) {
    this.#listener = listener;
  }

  /** "off", "on", or "starting" while the browser does not play yet. */
  get state() {
    if (!this.#enabled) return "off";
    return this.#node && this.#context.state === "running" ? "on" : "starting";
  }

  /** {buffer, target, underruns, lost}: ms of sound in the buffer, the target in ms, late blocks, blocks lost on the way. */
  get statistics() {
    const buffer = this.state === "on" ? this.#clock.buffered(this.#context.currentTime) : null;
    return {
      buffer: buffer === null ? null : buffer * 1000,
      target: buffer === null ? null : this.#report.target * 1000,
      underruns: this.#report?.underruns ?? 0,
      lost: this.#lost,
    };
  }

  /** Begins a session with these tracks, of which it plays the audio outputs; returns whether there are any. */
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

  /** Takes a frame if it belongs to an audio track; returns whether it does. */
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
      this.#tracks.delete(track); // reported once; the track's other blocks would fail too
      this.#listener.failed(`${description.name}, block ${seq}: ${error.message}`);
    }
    return true;
  }

  /** The presentation time (ms) that is heard at `now` (ms, as `performance.now()`); null without sound. */
  timeAt(now) {
    if (this.state !== "on") return null;
    const { contextTime, performanceTime } = this.#context.getOutputTimestamp();
    if (!performanceTime) return null; // the device has not played a sample yet
    const position = this.#clock.positionAt(contextTime + (now - performanceTime) / 1000);
    return position === null ? null : position * 1000;
  }

  /** Turns the player on, which the browser allows only in a gesture's handler, or off. */
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
        this.#context = null; // the next try opens a new context
      }
      this.#listener.failed(`sound: ${error.message}`);
    }
    this.#listener.changed();
  }

  /** A stream of the played sound at full volume, for a recording; null while the player is not on. */
  captureStream() {
    if (this.state !== "on") return null;
    const destination = new MediaStreamAudioDestinationNode(this.#context, { channelCount: 1 });
    this.#node.connect(destination);
    return { stream: destination.stream, close: () => this.#node.disconnect(destination) };
  }

  /** Perceived loudness from 0 to 1; the amplitude is its square. */
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
    this.#reset(); // discards blocks from before the player was turned off
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
  if (codec !== "pcm_s16le" || payload.length % 2) throw new TypeError(`${payload.length} bytes of ${codec} are not 16-bit samples`);
  return new Int16Array(payload.slice().buffer);
}

/** Opens an audio context at the track's rate, which avoids resampling, or at the device's rate if the browser refuses that. */
function openContext(sampleRate) {
  try {
    return new AudioContext({ sampleRate, latencyHint: "interactive" });
  } catch {
    return new AudioContext({ latencyHint: "interactive" });
  }
}
