/**
 * The model's sound: off until it is started, which a browser allows in a gesture's handler alone. The code that plays is loaded with
 * the first session that has sound, so that it is there when the gesture comes.
 */
import type { AudioPlayer, SoundCapture, SoundStatistics } from "../sound/audio-player.ts";
import type { Session } from "../wire/protocol.ts";
import { Emitter } from "./emitter.ts";
import type { Sound } from "./types.ts";

export class SoundOutput implements Sound {
  #player: AudioPlayer | null = null;
  #loading: Promise<void> | null = null;
  /** Whether the sound shall be on as soon as there is a player. */
  #wanted = false;
  /** Whether it was wanted when the client ended: it is again when the client connects again, unless it was stopped. */
  #returns = false;
  #volume = 1;
  #changes = new Emitter<{ changed: undefined }>();
  #session: Session | null = null;
  #hasTracks = false;
  #failed: (message: string) => void;
  #worklet: string | URL | undefined;

  /** `failed` is told what does not work; `worklet` is the option `workers.sound`. */
  constructor(failed: (message: string) => void, worklet: string | URL | undefined) {
    this.#failed = failed;
    this.#worklet = worklet;
  }

  get state(): Sound["state"] {
    if (!this.#hasTracks) return "none";
    const state = this.#player?.state ?? (this.#wanted ? "starting" : "off");
    return state === "starting" && globalThis.navigator?.userActivation?.hasBeenActive === false ? "blocked" : state;
  }

  get volume(): number {
    return this.#volume;
  }

  set volume(value: number) {
    this.#volume = Math.min(1, Math.max(0, value));
    if (this.#player !== null) this.#player.volume = this.#volume;
  }

  async start(): Promise<void> {
    this.#wanted = true;
    if (this.#player !== null) return this.#player.setEnabled(true);
    this.#changed();
    await this.#load();
  }

  async stop(): Promise<void> {
    this.#wanted = this.#returns = false;
    if (this.#player !== null) await this.#player.setEnabled(false);
    else this.#changed();
  }

  /** The client has ended: no device stays open. */
  async close(): Promise<void> {
    this.#returns = this.#wanted;
    this.#wanted = false;
    await this.#player?.close();
  }

  /** The client connects again after its end. */
  restart(): void {
    if (this.#returns) void this.start();
  }

  subscribe(listener: () => void): () => void {
    return this.#changes.on("changed", listener);
  }

  get statistics(): SoundStatistics {
    return this.#player?.statistics ?? { buffer: null, target: null, underruns: 0, lost: 0 };
  }

  beginSession(session: Session): void {
    this.#session = session;
    this.#hasTracks = session.tracks.some(({ kind, direction }) => kind === "audio" && direction === "out");
    this.#player?.beginSession(session.tracks);
    session.addEventListener("track", ({ detail: track }) => this.#player?.describe(track));
    session.addEventListener("frame", ({ detail: packet }) => this.#player?.accept(packet));
    // A browser alone can play; elsewhere the packets are all that there is.
    if (this.#hasTracks && globalThis.AudioContext !== undefined) void this.#load();
    this.#changed();
  }

  /** The presentation time (ms) that is heard at `now`; null without sound. */
  timeAt(now: number): number | null {
    return this.#player?.timeAt(now) ?? null;
  }

  captureStream(): SoundCapture | null {
    return this.#player?.captureStream() ?? null;
  }

  #load(): Promise<void> {
    this.#loading ??= this.#open().catch((error: Error) => {
      this.#loading = null; // the next start tries again
      this.#wanted = false;
      this.#failed(`sound: ${error.message}`);
      this.#changed();
    });
    return this.#loading;
  }

  async #open(): Promise<void> {
    const { AudioPlayer } = await import("../sound/audio-player.ts");
    const player = new AudioPlayer({ changed: () => this.#changed(), failed: this.#failed }, this.#worklet);
    player.volume = this.#volume;
    if (this.#session !== null) player.beginSession(this.#session.tracks);
    this.#player = player;
    if (this.#wanted) await player.setEnabled(true);
  }

  #changed(): void {
    this.#changes.emit("changed", undefined);
  }
}
