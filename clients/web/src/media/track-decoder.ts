/** The decoder of a track, through all its descriptions and failures: the same for what draws the pictures and for what hands them out. */
import type { TrackDescription } from "../wire/messages.ts";
import type { Decoder, DecoderEntry, DecoderListener } from "./decoders.ts";
import { openDecoder } from "./decoders.ts";

/** Decoded pictures that may wait: a video decoder has a small pool of pictures, and stalls when all are in use. */
export const MOST_READY = 4;
/** How long a decoder may take for its last pictures when the track gets another description. */
const CHANGE_PATIENCE = 100;
const KEYFRAME_FLOOR = 800;
const ERROR_MEMORY = 10_000;

type Timer = ReturnType<typeof setTimeout>;

/** What a decoder tells of the entries that it was given. */
export interface TrackDecoderListener<Entry> extends Pick<DecoderListener<Entry>, "decoded" | "lost"> {
  /** The decoder was closed before it answered this entry. */
  dropped(entry: Entry): void;
  /** Entries that had to wait may be taken now. */
  ready(): void;
}

/** What a decoder needs of others. */
export interface TrackDecoderHelp {
  /** Requests a keyframe of the server. */
  keyframe(): void;
  /** This codec is no longer decoded, until `preferSoftware` or a track with another codec. */
  trouble(codec: string | null, software: boolean, message: string): void;
}

export class TrackDecoder<Entry extends DecoderEntry> {
  #listener: TrackDecoderListener<Entry>;
  #help: TrackDecoderHelp;
  #software: boolean;
  #now: () => number;
  #decoder: Decoder<Entry> | null = null;
  /** The description that the decoder is opened for; null if it must be opened again. */
  #track: TrackDescription | null = null;
  /** The codec that failed, until the page has chosen a fallback. */
  #failedCodec: string | null = null;
  #needsKey = true;
  #lastError = -Infinity;
  #askedAt = -Infinity;
  #askTimer: Timer | undefined;
  #changeTimer: Timer | undefined;

  constructor(listener: TrackDecoderListener<Entry>, help: TrackDecoderHelp, software: boolean, now: () => number) {
    this.#listener = listener;
    this.#help = help;
    this.#software = software;
    this.#now = now;
  }

  /** Whether the decoder that is open has given a picture. */
  get hasOutput(): boolean {
    return this.#decoder?.hasOutput ?? false;
  }

  /**
   * What to do with the oldest entry that waits: give it to `feed`, drop it, or let it wait until something is decoded, lost, or `ready`.
   * With `full` there is no room for its picture.
   */
  next({ track, key }: Entry, full: boolean): "feed" | "drop" | "wait" {
    if (track !== this.#track) {
      if (this.#decoder?.isEmpty === false) {
        this.#changeTimer ??= setTimeout(() => {
          this.reset();
          this.#listener.ready();
        }, CHANGE_PATIENCE);
        return "wait"; // the pictures of before come first
      }
      this.#openFor(track);
    }
    if (this.#decoder === null) return "drop";
    if (this.#needsKey && !key) {
      this.#requestKeyframe();
      return "drop";
    }
    return full || !this.#decoder.hasRoom ? "wait" : "feed";
  }

  feed(entry: Entry): void {
    this.#needsKey = false;
    this.#rest();
    this.#decoder?.feed(entry);
  }

  /** An entry was left out, and those after it need it. */
  needKey(): void {
    this.#needsKey = true;
    this.#requestKeyframe();
  }

  /** Decodes in software from the next keyframe on. */
  preferSoftware(): void {
    this.#software = true;
    this.#failedCodec = null;
    this.reset();
    this.#requestKeyframe();
  }

  /** Closes the decoder and drops its entries; the next entry opens another. */
  reset(): void {
    clearTimeout(this.#changeTimer);
    this.#changeTimer = undefined;
    const rest = this.#decoder?.close() ?? [];
    this.#decoder = null;
    this.#track = null;
    this.#needsKey = true;
    for (const entry of rest) this.#listener.dropped(entry);
  }

  /** Closes the decoder. Nothing is asked for any more, until the next entry. */
  close(): void {
    this.reset();
    this.#rest();
  }

  #openFor(track: TrackDescription): void {
    this.reset();
    this.#track = track;
    if (track.codec === this.#failedCodec) return;
    try {
      this.#decoder = openDecoder(track, this.#software, {
        decoded: (entry, image) => this.#listener.decoded(entry, image),
        lost: (entry, message) => this.#listener.lost(entry, message),
        failed: (message, reclaimed) => (reclaimed ? this.reset() : this.#failed(track, message)),
        stalled: (message) => this.#abandon(track, message),
      });
    } catch (error) {
      this.#abandon(track, (error as Error).message);
    }
  }

  /** The stream may be the cause of a first error, and a keyframe then helps; the decoder is the cause of a second one. */
  #failed(track: TrackDescription, message: string): void {
    const now = this.#now();
    const again = now - this.#lastError < ERROR_MEMORY;
    this.#lastError = again ? -Infinity : now;
    if (again) {
      this.#abandon(track, message);
    } else {
      this.reset();
      this.#requestKeyframe();
      this.#listener.ready();
    }
  }

  #abandon(track: TrackDescription, message: string): void {
    const wasOpen = this.#decoder !== null;
    this.close();
    this.#track = track; // until a fallback gives another description or decoder, its entries are dropped
    this.#failedCodec = track.codec;
    this.#help.trouble(track.codec, this.#software, message);
    if (wasOpen) this.#listener.ready(); // else `next` goes on
  }

  /** Requests a keyframe now, or when `KEYFRAME_FLOOR` has passed since the last request, unless `#rest` is called before. */
  #requestKeyframe(): void {
    if (this.#askTimer !== undefined) return;
    const now = this.#now();
    const wait = this.#askedAt + KEYFRAME_FLOOR - now;
    if (wait <= 0) {
      this.#askedAt = now;
      this.#help.keyframe();
      return;
    }
    this.#askTimer = setTimeout(() => {
      this.#askTimer = undefined;
      this.#requestKeyframe();
    }, wait);
  }

  /** No keyframe is needed: it has come, or nothing decodes any more. */
  #rest(): void {
    clearTimeout(this.#askTimer);
    this.#askTimer = undefined;
  }
}
