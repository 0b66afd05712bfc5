/**
 * Schedules the frames of one video track, in a worker or on the page: when to decode each frame, when to draw it, and which
 * frames to drop. Times are milliseconds of the page's clock.
 *
 * Stills (JPEG, raw) are independent and do not queue up: while one is decoded, only the newest waits. A frame of another codec
 * needs the frames before it: a few are in the decoder, others wait. If they wait too long, the player drops all up to the next
 * keyframe and requests a keyframe.
 *
 * While sound plays, it is the clock: a picture is drawn when its presentation time is heard, but at most 250 ms after its
 * arrival. Without sound a picture waits for the playout delay, if that is on. The first picture made with a newer command does
 * not wait: it is drawn as soon as it is decoded, and older waiting pictures are dropped.
 */
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet } from "../wire/packet.ts";
import type { DecodedImage, DecoderEntry } from "./decoders.ts";
import { isStill } from "./decoders.ts";
import { PlayoutDelay } from "./playout-delay.ts";
import { MOST_READY, TrackDecoder, type TrackDecoderListener } from "./track-decoder.ts";

const LONGEST_HOLD = 250;
const MOST_WAITING = 32;
const LATE = 150;
const EARLY = 8; // half the frame time of most displays

/** What the player needs of a packet. */
export type PlayerFrame = Pick<Packet, "seq" | "ptsUs" | "flags" | "command" | "payload">;

/** `audioTime` is the presentation time heard at `at`; null without sound. */
export interface HeardTime {
  readonly at: number;
  readonly audioTime: number | null;
}

/** What a player tells; `Picture` explains it. Each frame gets one of the first three calls. */
export interface PlayerListener {
  shown(seq: number, at: number, lead: number | null, width: number, height: number): void;
  skipped(seq: number): void;
  failed(seq: number, message: string): void;
  dealt(seq: number, heldUs: number): void;
  keyframe(): void;
  trouble(codec: string | null, software: boolean, message: string): void;
}

/** First values for `smooth` and `preferSoftware`. */
export interface PlayerOptions {
  readonly lead?: boolean;
  readonly software?: boolean;
}

interface Entry extends DecoderEntry {
  readonly seq: number;
  readonly arrived: number;
  /** Whether it is the first frame made with a newer command; those before it are superseded, and not drawn. */
  urgent: boolean;
  superseded: boolean;
  /** Whether it needs no more decoding. */
  processed: boolean;
  /** When the decoder got it; 0 before. */
  fedAt: number;
  image: DecodedImage | null;
}

type Timer = ReturnType<typeof setTimeout>;
type DecodedEntry = Entry & { image: DecodedImage };

/** Where the player draws. */
interface DrawTarget {
  draw(image: DecodedImage, width: number, height: number): void;
}

export class Player implements TrackDecoderListener<Entry> {
  #renderer: DrawTarget;
  #listener: PlayerListener;
  #now: () => number;
  #described: TrackDescription;
  #delay: PlayoutDelay | null = null;
  #clock: HeardTime = { at: 0, audioTime: null };
  #newestCommand = -1;
  #decodeTime = 0;

  #waiting: Entry[] = []; // not decoded
  #ready: DecodedEntry[] = []; // decoded, not drawn
  #unprocessed: Entry[] = []; // not yet reported by `dealt`, which reports in order

  #decoder: TrackDecoder<Entry>;
  #presentTimer: Timer | undefined;
  #closed = false;

  /** `now()` is the page's clock. */
  constructor(
    renderer: DrawTarget,
    track: TrackDescription,
    listener: PlayerListener,
    { now, lead = true, software = false }: PlayerOptions & { readonly now: () => number },
  ) {
    this.#renderer = renderer;
    this.#described = track;
    this.#listener = listener;
    this.#now = now;
    this.#decoder = new TrackDecoder(this, listener, software, now);
    this.smooth(lead);
  }

  /**
   * The track has a new size or codec from the next frame on. Each description is another object, also after resuming, where it says the same:
   * that it is another one restarts the decoder.
   */
  describe(track: TrackDescription): void {
    this.#described = track;
  }

  /** Turns the playout delay on or off. */
  smooth(on: boolean): void {
    if (on !== (this.#delay !== null)) this.#delay = on ? new PlayoutDelay() : null;
    this.#present();
  }

  /** Decodes in software from the next keyframe on. */
  preferSoftware(): void {
    this.#decoder.preferSoftware();
  }

  /** Takes a frame that arrived at `arrived`. `clock.audioTime` is the presentation time heard at `clock.at` (null: no sound). */
  show({ seq, ptsUs, flags, command, payload }: PlayerFrame, arrived: number, clock: HeardTime): void {
    if (this.#closed) return;
    this.#clock = clock;
    const entry: Entry = {
      seq,
      ptsUs,
      payload,
      arrived,
      track: this.#described,
      key: isStill(this.#described.codec) || (flags & 1) === 1,
      urgent: false,
      superseded: false,
      processed: false,
      fedAt: 0,
      image: null,
    };
    if (command !== null && command > this.#newestCommand) {
      this.#newestCommand = command;
      if (clock.audioTime === null) this.#supersede(entry);
    }
    this.#unprocessed.push(entry);
    this.#waiting.push(entry);
    this.ready();
  }

  /** Stops drawing, also of frames in the decoder; the last picture stays. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#presentTimer);
    this.#decoder.close();
    for (const { image } of this.#ready) image.close?.();
    this.#waiting = [];
    this.#ready = [];
    this.#unprocessed = [];
  }

  /** `entry` is the first frame made with a newer command. Older frames are still decoded if later ones need them, but not drawn. */
  #supersede(entry: Entry): void {
    entry.urgent = true;
    for (const older of this.#ready.splice(0)) this.dropped(older);
    this.#waiting = this.#waiting.filter((older) => {
      if (!isStill(older.track.codec)) return true;
      this.dropped(older);
      return false;
    });
    for (const older of this.#unprocessed) older.superseded = true;
  }

  /** Passes waiting frames to the decoder as long as it has room. */
  ready(): void {
    for (;;) {
      this.#dropWaiting();
      const [entry] = this.#waiting;
      if (entry === undefined || this.#closed) return;
      const next = this.#decoder.next(entry, this.#ready.length >= MOST_READY);
      if (next === "wait") return;
      this.#waiting.shift();
      if (next === "drop") {
        this.dropped(entry);
      } else {
        entry.fedAt = this.#now();
        this.#decoder.feed(entry);
      }
    }
  }

  /** Drops the waiting frames that are not needed. */
  #dropWaiting(): void {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return;
    const now = this.#now();
    const droppable = isStill(oldest.track.codec) ? this.#droppableStills(now) : this.#droppableChunks(oldest, now);
    for (const entry of this.#waiting.splice(0, droppable)) this.dropped(entry);
  }

  /** The number of stills before the newest one that would still be on time. */
  #droppableStills(now: number): number {
    const waiting = this.#waiting;
    return waiting.findIndex((entry, i) => {
      const next = waiting[i + 1]; // the newest has none, and is needed
      if (next === undefined || !isStill(entry.track.codec)) return true;
      return waiting.length - i <= MOST_WAITING && this.#timeUntilDue(next, now) > this.#decodeTime;
    });
  }

  /** The number of frames from `oldest` to the newest due keyframe; without one, if the decoder is behind, to the next keyframe. */
  #droppableChunks(oldest: Entry, now: number): number {
    const waiting = this.#waiting;
    const shorter = waiting.findLastIndex((entry) => entry.key && this.#timeUntilDue(entry, now) === 0);
    if (shorter > 0) return shorter;
    const behind = this.#decoder.hasOutput && now - this.#due(oldest) > LATE;
    if (oldest.key || !(behind || waiting.length > MOST_WAITING)) return 0;
    const next = waiting.findIndex((entry) => entry.key || isStill(entry.track.codec));
    if (next >= 0) return next;
    this.#decoder.needKey();
    return waiting.length;
  }

  decoded(entry: Entry, image: DecodedImage): void {
    const now = this.#now();
    const decoded = Object.assign(entry, { image });
    this.#decodeTime += (now - entry.fedAt - this.#decodeTime) / 8;
    this.#delay?.add(entry.ptsUs / 1000, entry.arrived + now - entry.fedAt); // without the wait for the decoder
    this.#markProcessed(entry);
    if (entry.superseded) {
      this.dropped(entry);
    } else {
      this.#ready.push(decoded);
      this.#present();
    }
    this.ready();
  }

  lost(entry: Entry, message: string): void {
    this.#listener.failed(entry.seq, message);
    this.#markProcessed(entry);
    this.ready();
  }

  /** Draws the newest due picture, and sets a timer for the next. */
  #present(): void {
    clearTimeout(this.#presentTimer);
    if (this.#closed) return;
    const now = this.#now();
    const early = this.#clock.audioTime === null ? 2 : EARLY;
    const place = this.#ready.findLastIndex((entry) => this.#timeUntilDue(entry, now) <= early);
    const due = this.#ready.splice(0, place + 1);
    const newest = due.pop();
    for (const older of due) this.dropped(older);
    if (newest !== undefined) this.#draw(newest);
    const [next] = this.#ready;
    if (next !== undefined) {
      this.#presentTimer = setTimeout(
        () => {
          this.#present();
          this.ready();
        },
        this.#timeUntilDue(next, now) - early / 2,
      );
    }
  }

  #draw({ seq, image, track }: DecodedEntry): void {
    const [width, height] =
      "displayWidth" in image ? [track.width ?? image.displayWidth, track.height ?? image.displayHeight] : [image.width, image.height]; // a still
    this.#renderer.draw(image, width, height);
    image.close?.();
    this.#listener.shown(seq, this.#now(), this.#delay?.current ?? null, width, height);
  }

  #timeUntilDue(entry: Entry, now: number): number {
    return Math.max(0, this.#due(entry) - now);
  }

  /** When to draw the frame: not before its arrival, and at most `LONGEST_HOLD` after it. */
  #due({ urgent, ptsUs, arrived }: Entry): number {
    const { at, audioTime } = this.#clock;
    const pts = ptsUs / 1000;
    let due = arrived;
    if (audioTime !== null) due = at + pts - audioTime;
    else if (!urgent && this.#delay !== null) due = this.#delay.due(pts);
    return Math.max(arrived, Math.min(due, arrived + LONGEST_HOLD));
  }

  dropped(entry: Entry): void {
    if (this.#closed) return;
    entry.image?.close?.();
    this.#listener.skipped(entry.seq);
    if (!entry.processed) this.#markProcessed(entry);
  }

  /** The frame needs no more decoding. Reports the newest frame that has no unprocessed frame before it. */
  #markProcessed(entry: Entry): void {
    entry.processed = true;
    let last: Entry | undefined;
    while (this.#unprocessed[0]?.processed) last = this.#unprocessed.shift();
    // The clocks of page and worker are rounded each for itself, so a frame may seem to be dropped before it came.
    if (last !== undefined) this.#listener.dealt(last.seq, Math.max(0, Math.round((this.#now() - last.arrived) * 1000)));
  }
}
