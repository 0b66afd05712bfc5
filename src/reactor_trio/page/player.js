/**
 * Plays the frames of one video track on a canvas, in a worker or on the page: what is decoded when, what is drawn when,
 * and what is left out. Times are milliseconds of the page's clock.
 *
 * Stills (JPEG, raw) do not queue up: while one is decoded the newest is kept. Of the other codecs each frame needs those
 * before it: a few are in the decoder, others wait, and if they come to wait too long, all up to the next keyframe are
 * left out and one is asked for.
 *
 * While sound plays, it is the clock: a picture is drawn when its presentation time is heard, but at most a quarter of a
 * second after it came. Else it waits for the lead, if that is on; and the first one made with a newer command waits for
 * nothing: it is drawn as soon as it is decoded, and older ones that wait are left out.
 */
import { isStill, openDecoder } from "./decoders.js";
import { PlayoutDelay } from "./playout-delay.js";

const LONGEST_HOLD = 250;
const MOST_WAITING = 32;
const MOST_READY = 4; // pictures of a video decoder come from a small pool, and it stands still without
const LATE = 150;
const EARLY = 8; // half the time between two pictures of most screens
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
  #unprocessed = []; // not answered by `dealt`, which comes in order

  #track = null; // of the decoder; null when it is to be opened anew
  #decoder = null;
  #failedCodec = null; // the codec that did not work, until the page has done something about it
  #needsKey = true;
  #hasOutput = false;
  #lastError = -Infinity;

  #keyframeAt = -Infinity;
  #keyframeTimer = null;
  #presentTimer = null;
  #changeTimer = null;
  #closed = false;

  /**
   * `screen` is {draw(image, width, height)}; `listener` is {shown(seq, at, lead, width, height), skipped(seq), failed(seq, message),
   * dealt(seq, heldUs), keyframe(), trouble(codec, software, message)}, of which one of the first three answers each frame;
   * `now()` is the page's clock. `lead` and `software` say whether to begin with them.
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

  /** Whether pictures wait for the lead. */
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

  /** A frame that came at `arrived`; at `clock.at` the presentation time `clock.audioTime` (null: no sound) is heard. */
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

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    this.#closed = true;
    for (const timer of [this.#keyframeTimer, this.#presentTimer, this.#changeTimer]) clearTimeout(timer);
    this.#decoder?.close();
    for (const { image } of this.#ready) image.close?.();
    this.#waiting = [];
    this.#ready = [];
    this.#unprocessed = [];
  }

  /** `entry` is the first made with a newer command: what is older is still decoded where that is needed, but not drawn. */
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

  /** Feeds the decoder with what waits, as far as there is room. */
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

  /** Leaves out what can be droppable of those that wait. */
  #dropWaiting() {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    const now = this.#now();
    const droppable = isStill(waiting[0].track.codec) ? this.#droppableStills(now) : this.#droppableChunks(now);
    for (const entry of waiting.splice(0, droppable)) this.#skip(entry);
  }

  /** All before the newest that would still be on time. */
  #droppableStills(now) {
    const waiting = this.#waiting;
    let droppable = 0;
    while (droppable + 1 < waiting.length && isStill(waiting[droppable].track.codec)
      && (waiting.length - droppable > MOST_WAITING || this.#timeUntilDue(waiting[droppable + 1], now) <= this.#decodeTime)) droppable += 1;
    return droppable;
  }

  /** All before the newest keyframe whose time has come; without one, all up to the next if the decoder is behind. */
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

  /** Opens the decoder for `track` once the one before has given what is in it; whether that is so. */
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

  /** Closes the decoder; what is in it is left out. */
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
    this.#delay?.add(entry.ptsUs / 1000, entry.arrived + now - entry.fedAt); // less what it waited for room
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

  /** The first error may be the stream's, and a keyframe helps; the second is the decoder's. */
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

  /** Draws the newest picture whose time has come, and comes back for the next. */
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

  /** When it is to be drawn: not before it came, and not much later. */
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

  /** The frame needs no more work here but to be drawn; said with all before it, so not while one of those does. */
  #markProcessed(entry) {
    entry.processed = true;
    let last = null;
    while (this.#unprocessed[0]?.processed) last = this.#unprocessed.shift();
    if (last !== null) this.#listener.dealt(last.seq, Math.round((this.#now() - last.arrived) * 1000));
  }

  /** Now, or when the floor since the last time allows it if one is still needed then. */
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
