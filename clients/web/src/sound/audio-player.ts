/**
 * Plays the audio tracks of a session. The player is off until the user turns it on, because a browser lets a page make sound
 * only after a gesture. While it is off, it decodes nothing and opens no device. While it plays, `timeAt` is the clock for the
 * pictures.
 */

import { RECLAIMED } from "../media/codec-strings.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";
import { AudioClock } from "./audio-clock.ts";
import { OpusDecoder } from "./opus-decoder.ts";
import type { SoundBlock, SoundMessage, SoundReport } from "./worklet-messages.ts";

/** See `AudioPlayer.state`. */
export type SoundState = "off" | "starting" | "on";

export interface AudioPlayerListener {
  /** `state` has changed. */
  changed(): void;
  /** `message` says what failed: a block, a track, or the output. */
  failed(message: string): void;
}

export interface SoundStatistics {
  /** Milliseconds; null while nothing is played. */
  readonly buffer: number | null;
  readonly target: number | null;
  /** Late blocks; and blocks that were lost on the way, or cannot be played. */
  readonly underruns: number;
  readonly lost: number;
}

/** A recording's own output of the played sound, until `close`. */
export interface SoundCapture {
  readonly stream: MediaStream;
  close(): void;
}

export class AudioPlayer {
  #tracks = new Map<number, TrackDescription>();
  #newest = new Map<number, number>();
  #decoders = new Map<number, OpusDecoder>();
  /** Whether the user knows that a block of this session could not be played. */
  #told = false;
  #context: AudioContext | null = null;
  #node: AudioWorkletNode | null = null;
  #gain: GainNode | null = null;
  #clock = new AudioClock();
  #report: SoundReport | null = null;
  #lost = 0;
  #enabled = false;
  #volume = 1;
  #listener: AudioPlayerListener;
  #worklet: string | URL | undefined;

  /** `worklet` says where `audio-player-worklet.js` is, if it is not beside this module. */
  constructor(listener: AudioPlayerListener, worklet?: string | URL) {
    this.#listener = listener;
    this.#worklet = worklet;
  }

  /** "off", "on", or "starting" while the browser does not play yet. */
  get state(): SoundState {
    if (!this.#enabled) return "off";
    return this.#playing ? "on" : "starting";
  }

  /** The open device while `state` is "on", else null. */
  get #playing(): { readonly context: AudioContext; readonly node: AudioWorkletNode } | null {
    const [context, node] = [this.#context, this.#node];
    return this.#enabled && node && context?.state === "running" ? { context, node } : null;
  }

  /** {buffer, target, underruns, lost}: ms of sound in the buffer, the target in ms, late blocks, blocks lost on the way. */
  get statistics(): SoundStatistics {
    const playing = this.#playing;
    const buffer = playing && this.#clock.buffered(playing.context.currentTime);
    return {
      buffer: buffer === null ? null : buffer * 1000,
      target: buffer === null || this.#report === null ? null : this.#report.target * 1000,
      underruns: this.#report?.underruns ?? 0,
      lost: this.#lost,
    };
  }

  /** Begins a session with these tracks, of which it plays the audio outputs; returns whether there are any. */
  beginSession(tracks: readonly TrackDescription[]): boolean {
    this.#tracks = new Map(
      tracks.filter(({ kind, direction }) => kind === "audio" && direction === "out").map((track) => [track.index, track]),
    );
    this.#newest.clear();
    this.#told = false;
    this.#lost = 0;
    this.#reset();
    return this.#tracks.size > 0;
  }

  /** A track has a new description from the next frame on. */
  describe(track: TrackDescription): void {
    if (!this.#tracks.has(track.index)) return;
    this.#tracks.set(track.index, track);
    this.#drop(track.index);
  }

  /** Takes a frame if it belongs to an audio track; returns whether it does. */
  accept(frame: Packet): boolean {
    const { track, seq } = frame;
    const description = this.#tracks.get(track);
    if (description === undefined) return false;
    const before = this.#newest.get(track);
    if (before !== undefined && seq > before + 1) this.#lost += seq - before - 1;
    this.#newest.set(track, seq);
    if (this.state !== "on") return true;
    try {
      if (description.codec === "opus") this.#decoder(description).decode(frame);
      else this.#play(track, frame.ptsUs / 1e6, description.sample_rate as number, toInt16(frame.payload, description.codec));
    } catch (error) {
      this.#fail(track, `${description.name}, block ${seq}: ${(error as Error).message}`);
    }
    return true;
  }

  /** The presentation time (ms) that is heard at `now` (ms, as `performance.now()`); null without sound. */
  timeAt(now: number): number | null {
    const { contextTime, performanceTime } = this.#playing?.context.getOutputTimestamp() ?? {};
    if (contextTime === undefined || !performanceTime) return null; // the device has not played a sample yet
    const position = this.#clock.positionAt(contextTime + (now - performanceTime) / 1000);
    return position === null ? null : position * 1000;
  }

  /** Turns the player on, which the browser allows only in a gesture's handler, or off. */
  async setEnabled(on: boolean): Promise<void> {
    this.#enabled = on;
    this.#listener.changed();
    try {
      if (on) await this.#start();
      else await this.#context?.suspend();
    } catch (error) {
      if (on && this.#context === null) return; // it was closed meanwhile
      this.#enabled = false;
      if (this.#node === null) {
        await this.#context?.close();
        this.#context = null; // the next try opens a new context
      }
      this.#listener.failed(`sound: ${(error as Error).message}`);
    }
    this.#listener.changed();
  }

  /** Turns the player off and frees the device; it may be turned on again. */
  async close(): Promise<void> {
    const context = this.#context;
    this.#enabled = false;
    [this.#context, this.#node, this.#gain] = [null, null, null];
    this.#reset();
    this.#listener.changed();
    await context?.close();
  }

  /** A stream of the played sound at full volume, for a recording; null while the player is not on. */
  captureStream(): SoundCapture | null {
    if (this.#playing === null) return null;
    const { context, node } = this.#playing;
    const destination = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
    node.connect(destination);
    return { stream: destination.stream, close: () => node.disconnect(destination) };
  }

  /** Perceived loudness from 0 to 1; the amplitude is its square. */
  set volume(value: number) {
    this.#volume = value;
    this.#gain?.gain.setTargetAtTime(value ** 2, this.#gain.context.currentTime, 0.015);
  }

  async #start(): Promise<void> {
    if (this.#context === null) {
      const [track] = this.#tracks.values();
      const context = openContext(track?.sample_rate);
      this.#context = context;
      context.addEventListener("statechange", () => this.#listener.changed());
      await context.audioWorklet.addModule(this.#worklet ?? new URL("./audio-player-worklet.js", import.meta.url));
      if (this.#context !== context) return; // closed meanwhile
      this.#gain = new GainNode(context, { gain: this.#volume ** 2 });
      this.#gain.connect(context.destination);
      const node = new AudioWorkletNode(context, "audio-player", { numberOfInputs: 0, outputChannelCount: [1] });
      node.port.onmessage = ({ data }: MessageEvent<SoundReport>) => {
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

  #decoder(track: TrackDescription): OpusDecoder {
    let decoder = this.#decoders.get(track.index);
    if (decoder === undefined) {
      decoder = new OpusDecoder(
        track,
        (...block) => this.#play(track.index, ...block),
        ({ name, message }) => {
          if (name === RECLAIMED) this.#drop(track.index);
          else this.#fail(track.index, `${track.name}: ${message}`);
        },
      );
      this.#decoders.set(track.index, decoder);
    }
    return decoder;
  }

  /** A block cannot be played, which is told once in a session; the next block gets another decoder. */
  #fail(track: number, message: string): void {
    this.#drop(track);
    this.#lost += 1;
    if (this.#told) return;
    this.#told = true;
    this.#listener.failed(message);
  }

  #drop(track: number): void {
    this.#decoders.get(track)?.close();
    this.#decoders.delete(track);
  }

  #play(track: number, pts: number, rate: number, samples: SoundBlock["samples"]): void {
    this.#playing?.node.port.postMessage({ track, pts, rate, samples } satisfies SoundMessage, [samples.buffer]);
  }

  #reset(): void {
    for (const decoder of this.#decoders.values()) decoder.close();
    this.#decoders.clear();
    this.#clock.clear();
    this.#node?.port.postMessage("reset" satisfies SoundMessage);
  }
}

function toInt16(payload: Packet["payload"], codec: string | null): Int16Array<ArrayBuffer> {
  if (codec !== "pcm_s16le" || payload.length % 2) throw new TypeError(`${payload.length} bytes of ${codec} are not 16-bit samples`);
  return new Int16Array(payload.slice().buffer);
}

/** Opens an audio context at the track's rate, which avoids resampling, or at the device's rate if the browser refuses that. */
function openContext(sampleRate: number | null | undefined): AudioContext {
  try {
    return new AudioContext({ ...(sampleRate ? { sampleRate } : {}), latencyHint: "interactive" });
  } catch {
    return new AudioContext({ latencyHint: "interactive" });
  }
}
