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
import { isStill, openDecoder } from "./decoders.js";
import { PlayoutDelay } from "./playout-delay.js";

const LONGEST_HOLD = 250;
const MOST_WAITING = 32;
const MOST_READY = 4; // a video decoder has a small pool of pictures and stalls when all are in use
const LATE = 150;
const EARLY = 8; // half the frame time of most displays
const KEYFRAME_FLOOR = 800;
const ERROR_MEMORY = 10_000;
const CHANGE_PATIENCE = 100;

export class Player {
  #renderer;
  #listener;
  #now;
  #software;
  #described;
  #delay = null;
  #clock = { at: 0, audioTime: null };
  #newestCommand = -1;
  #decodeTime = 0;

  #waiting = []; // not decoded
  #ready = []; // decoded, not drawn
  #unprocessed = []; // not yet reported by `dealt`, which reports in order

  #track = null; // the decoder's track; null if the decoder must be reopened
  #decoder = null;
  #failedCodec = null; // the codec that failed, until the page has chosen a fallback
  #needsKey = true;
  #hasOutput = false;
  #lastError = -Infinity;

  #keyframeAt = -Infinity;
  #keyframeTimer = null;
  #presentTimer = null;
  #changeTimer = null;
  #closed = false;

  /**
   * `renderer` is {draw(image, width, height)}. `listener` is {shown(seq, at, lead, width, height), skipped(seq),
   * failed(seq, message), dealt(seq, heldUs), keyframe(), trouble(codec, software, message)}; each frame gets one of the first
   * three calls (`Picture` explains them). `now()` is the page's clock. `lead` and `software` are the first values for `smooth`
   * and `preferSoftware`.
   */
  constructor(renderer, track, listener, { now, lead = true, software = false }) {
    this.#renderer = renderer;
    this.#described = track;
    this.#listener = listener;
    this.#now = now;
    this.#software = software;
    this.smooth(lead);
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track) {
    this.#described = track;
  }

  /** Turns the playout delay on or off. */
  smooth(on) {
    if (on !== (this.#delay !== null)) this.#delay = on ? new PlayoutDelay() : null;
    this.#present();
  }

  /** Decodes in software from the next keyframe on. */
  preferSoftware() {
    this.#software = true;
    this.#failedCodec = null;
    this.#reset();
    this.#requestKeyframe();
  }

  /** Takes a frame that arrived at `arrived`. `clock.audioTime` is the presentation time heard at `clock.at` (null: no sound). */
  show({ seq, ptsUs, flags, command, payload }, arrived, clock) {
    if (this.#closed) return;
    this.#clock = clock;
    const entry = {
      seq, ptsUs, payload, arrived, track: this.#described, key: (flags & 1) === 1,
      urgent: false, superseded: false, processed: false, fedAt: null, image: null,
    };
    if (command !== null && command > this.#newestCommand) {
      this.#newestCommand = command;
      if (clock.audioTime === null) this.#supersede(entry);
    }
    this.#unprocessed.push(entry);
    this.#waiting.push(entry);
    this.#feedDecoder();
  }

  /** Stops drawing, also of frames in the decoder; the last picture stays. */
  close() {
    this.#closed = true;
    for (const timer of [this.#keyframeTimer, this.#presentTimer, this.#changeTimer]) clearTimeout(timer);
    this.#decoder?.close();
    for (const { image } of this.#ready) image.close?.();
    this.#waiting = [];
    this.#ready = [];
    this.#unprocessed = [];
  }

  /** `entry` is the first frame made with a newer command. Older frames are still decoded if later ones need them, but not drawn. */
  #supersede(entry) {
    entry.urgent = true;
    for (const older of this.#ready.splice(0)) this.#skip(older);
    this.#waiting = this.#waiting.filter((older) => {
      if (!isStill(older.track.codec)) return true;
      this.#skip(older);
      return false;
    });
    for (const older of this.#unprocessed) older.superseded = true;
  }

  /** Passes waiting frames to the decoder as long as it has room. */
  #feedDecoder() {
    for (;;) {
      this.#dropWaiting();
      const [entry] = this.#waiting;
      if (entry === undefined || this.#closed) return;
      if (entry.track !== this.#track && !this.#switchTrack(entry.track)) return;
      if (this.#decoder === null) {
        this.#waiting.shift();
        this.#skip(entry);
      } else if (this.#ready.length >= MOST_READY || !this.#decoder.hasRoom) {
        return;
      } else {
        this.#waiting.shift();
        this.#feed(entry);
      }
    }
  }

  #feed(entry) {
    if (!isStill(entry.track.codec)) {
      if (this.#needsKey && !entry.key) {
        this.#skip(entry);
        this.#requestKeyframe();
        return;
      }
      this.#needsKey = false;
      clearTimeout(this.#keyframeTimer);
      this.#keyframeTimer = null;
    }
    entry.fedAt = this.#now();
    this.#decoder.feed(entry);
  }

  /** Drops the waiting frames that are not needed. */
  #dropWaiting() {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    const now = this.#now();
    const droppable = isStill(waiting[0].track.codec) ? this.#droppableStills(now) : this.#droppableChunks(now);
    for (const entry of waiting.splice(0, droppable)) this.#skip(entry);
  }

  /** The number of stills before the newest one that would still be on time. */
  #droppableStills(now) {
    const waiting = this.#waiting;
    let droppable = 0;
    while (droppable + 1 < waiting.length && isStill(waiting[droppable].track.codec)
      && (waiting.length - droppable > MOST_WAITING || this.#timeUntilDue(waiting[droppable + 1], now) <= this.#decodeTime)) droppable += 1;
    return droppable;
  }

  /** The number of frames before the newest due keyframe; without one, if the decoder is behind, before the next keyframe. */
  #droppableChunks(now) {
    const waiting = this.#waiting;
    const shorter = waiting.findLastIndex((entry) => entry.key && this.#timeUntilDue(entry, now) === 0);
    if (shorter > 0) return shorter;
    const behind = this.#hasOutput && now - this.#due(waiting[0]) > LATE;
    if (waiting[0].key || !(behind || waiting.length > MOST_WAITING)) return 0;
    const next = waiting.findIndex((entry) => entry.key || isStill(entry.track.codec));
    if (next >= 0) return next;
    this.#needsKey = true;
    this.#requestKeyframe();
    return waiting.length;
  }

  /** Opens the decoder for `track` when the previous one is empty; returns whether it is open. */
  #switchTrack(track) {
    if (this.#decoder !== null && !this.#decoder.isEmpty) {
      this.#changeTimer ??= setTimeout(() => {
        this.#reset();
        this.#feedDecoder();
      }, CHANGE_PATIENCE);
      return false;
    }
    this.#reset();
    this.#track = track;
    if (track.codec === this.#failedCodec) return true;
    try {
      this.#decoder = openDecoder(track, this.#software, {
        decoded: (entry, image) => this.#decoded(entry, image),
        lost: (entry, message) => this.#lost(entry, message),
        failed: (message) => this.#failed(message),
        stalled: (message) => this.#abandonDecoder(message),
      });
    } catch (error) {
      this.#abandonDecoder(error.message);
    }
    return true;
  }

  /** Closes the decoder and drops its frames. */
  #reset() {
    clearTimeout(this.#changeTimer);
    this.#changeTimer = null;
    const rest = this.#decoder?.close() ?? [];
    this.#decoder = null;
    this.#track = null;
    this.#needsKey = true;
    this.#hasOutput = false;
    for (const entry of rest) this.#skip(entry);
  }

  #decoded(entry, image) {
    const now = this.#now();
    entry.image = image;
    this.#hasOutput = true;
    this.#decodeTime += (now - entry.fedAt - this.#decodeTime) / 8;
    this.#delay?.add(entry.ptsUs / 1000, entry.arrived + now - entry.fedAt); // without the wait for the decoder
    this.#markProcessed(entry);
    if (entry.superseded) {
      this.#skip(entry);
    } else {
      this.#ready.push(entry);
      this.#present();
    }
    this.#feedDecoder();
  }

  #lost(entry, message) {
    this.#listener.failed(entry.seq, message);
    this.#markProcessed(entry);
    this.#feedDecoder();
  }

  /** The stream may be the cause of a first error; a keyframe then helps. The decoder is the cause of a second one. */
  #failed(message) {
    const again = this.#now() - this.#lastError < ERROR_MEMORY;
    this.#lastError = again ? -Infinity : this.#now();
    if (again) {
      this.#abandonDecoder(message);
      return;
    }
    this.#reset();
    this.#requestKeyframe();
    this.#feedDecoder();
  }

  #abandonDecoder(message) {
    const track = this.#track;
    this.#reset();
    this.#track = track;
    this.#failedCodec = track.codec;
    clearTimeout(this.#keyframeTimer);
    this.#keyframeTimer = null;
    this.#listener.trouble(track.codec, this.#software, message);
    this.#feedDecoder();
  }

  /** Draws the newest due picture, and sets a timer for the next. */
  #present() {
    clearTimeout(this.#presentTimer);
    if (this.#closed) return;
    const now = this.#now();
    const early = this.#clock.audioTime === null ? 2 : EARLY;
    const place = this.#ready.findLastIndex((entry) => this.#timeUntilDue(entry, now) <= early);
    if (place >= 0) {
      const older = this.#ready.splice(0, place + 1);
      const entry = older.pop();
      for (const each of older) this.#skip(each);
      this.#draw(entry);
    }
    if (this.#ready.length) {
      this.#presentTimer = setTimeout(() => {
        this.#present();
        this.#feedDecoder();
      }, this.#timeUntilDue(this.#ready[0], now) - early / 2);
    }
  }

  #draw({ seq, image, track }) {
    const still = isStill(track.codec);
    const width = still ? image.width : track.width ?? image.displayWidth;
    const height = still ? image.height : track.height ?? image.displayHeight;
    this.#renderer.draw(image, width, height);
    image.close?.();
    this.#listener.shown(seq, this.#now(), this.#delay?.current ?? null, width, height);
  }

  #timeUntilDue(entry, now) {
    return Math.max(0, this.#due(entry) - now);
  }

  /** When to draw the frame: not before its arrival, and at most `LONGEST_HOLD` after it. */
  #due({ urgent, ptsUs, arrived }) {
    const { at, audioTime } = this.#clock;
    const pts = ptsUs / 1000;
    let due = arrived;
    if (audioTime !== null) due = at + pts - audioTime;
    else if (!urgent && this.#delay !== null) due = this.#delay.due(pts);
    return Math.max(arrived, Math.min(due, arrived + LONGEST_HOLD));
  }

  #skip(entry) {
    entry.image?.close?.();
    this.#listener.skipped(entry.seq);
    if (!entry.processed) this.#markProcessed(entry);
  }

  /** The frame needs no more decoding. Reports the newest frame that has no unprocessed frame before it. */
  #markProcessed(entry) {
    entry.processed = true;
    let last = null;
    while (this.#unprocessed[0]?.processed) last = this.#unprocessed.shift();
    if (last !== null) this.#listener.dealt(last.seq, Math.round((this.#now() - last.arrived) * 1000));
  }

  /** Requests a keyframe now, or when `KEYFRAME_FLOOR` has passed since the last request, if it is still needed then. */
  #requestKeyframe() {
    if (this.#keyframeTimer !== null || this.#closed) return;
    const now = this.#now();
    const wait = this.#keyframeAt + KEYFRAME_FLOOR - now;
    if (wait <= 0) {
      this.#keyframeAt = now;
      this.#listener.keyframe();
      return;
    }
    this.#keyframeTimer = setTimeout(() => {
      this.#keyframeTimer = null;
      if (this.#needsKey) this.#requestKeyframe();
    }, wait);
  }
}
