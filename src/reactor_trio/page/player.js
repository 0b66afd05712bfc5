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
import { isStill, openDecoder } from "./decoding.js";
import { Lead } from "./lead.js";

const LONGEST_HOLD = 250;
const MOST_WAITING = 32;
const MOST_READY = 4; // pictures of a video decoder come from a small pool, and it stands still without
const LATE = 150;
const EARLY = 8; // half the time between two pictures of most screens
const KEYFRAME_FLOOR = 800;
const ERROR_MEMORY = 10_000;
const CHANGE_PATIENCE = 100;

export class Player {
  #screen;
  #listener;
  #now;
  #software;
  #described;
  #lead = null;
  #clock = { at: 0, heard: null };
  #newestCommand = -1;
  #cost = 0;

  #waiting = []; // not decoded
  #ready = []; // decoded, not drawn
  #open = []; // not answered by `dealt`, which comes in order

  #track = null; // of the decoder; null when it is to be opened anew
  #decoder = null;
  #stuck = null; // the codec that did not work, until the page has done something about it
  #needsKey = true;
  #given = false;
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
  constructor(screen, track, listener, { now, lead = true, software = false }) {
    this.#screen = screen;
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
    if (on !== (this.#lead !== null)) this.#lead = on ? new Lead() : null;
    this.#present();
  }

  /** Decodes in software from the next keyframe on. */
  preferSoftware() {
    this.#software = true;
    this.#stuck = null;
    this.#reset();
    this.#askForKeyframe();
  }

  /** A frame that came at `arrived`; at `clock.at` the presentation time `clock.heard` (null: no sound) is heard. */
  show({ seq, ptsUs, flags, command, payload }, arrived, clock) {
    if (this.#closed) return;
    this.#clock = clock;
    const entry = {
      seq, ptsUs, payload, arrived, track: this.#described, key: (flags & 1) === 1,
      urgent: false, unseen: false, dealt: false, fed: null, image: null,
    };
    if (command !== null && command > this.#newestCommand) {
      this.#newestCommand = command;
      if (clock.heard === null) this.#cutOver(entry);
    }
    this.#open.push(entry);
    this.#waiting.push(entry);
    this.#pump();
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    this.#closed = true;
    for (const timer of [this.#keyframeTimer, this.#presentTimer, this.#changeTimer]) clearTimeout(timer);
    this.#decoder?.close();
    for (const { image } of this.#ready) image.close?.();
    this.#waiting = [];
    this.#ready = [];
    this.#open = [];
  }

  /** `entry` is the first made with a newer command: what is older is still decoded where that is needed, but not drawn. */
  #cutOver(entry) {
    entry.urgent = true;
    for (const older of this.#ready.splice(0)) this.#skip(older);
    this.#waiting = this.#waiting.filter((older) => {
      if (!isStill(older.track.codec)) return true;
      this.#skip(older);
      return false;
    });
    for (const older of this.#open) older.unseen = true;
  }

  /** Feeds the decoder with what waits, as far as there is room. */
  #pump() {
    for (;;) {
      this.#thin();
      const [entry] = this.#waiting;
      if (entry === undefined || this.#closed) return;
      if (entry.track !== this.#track && !this.#change(entry.track)) return;
      if (this.#decoder === null) {
        this.#waiting.shift();
        this.#skip(entry);
      } else if (this.#ready.length >= MOST_READY || !this.#decoder.room) {
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
        this.#askForKeyframe();
        return;
      }
      this.#needsKey = false;
      clearTimeout(this.#keyframeTimer);
      this.#keyframeTimer = null;
    }
    entry.fed = this.#now();
    this.#decoder.feed(entry);
  }

  /** Leaves out what can be spared of those that wait. */
  #thin() {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    const now = this.#now();
    const spared = isStill(waiting[0].track.codec) ? this.#sparedStills(now) : this.#sparedChunks(now);
    for (const entry of waiting.splice(0, spared)) this.#skip(entry);
  }

  /** All before the newest that would still be on time. */
  #sparedStills(now) {
    const waiting = this.#waiting;
    let spared = 0;
    while (spared + 1 < waiting.length && isStill(waiting[spared].track.codec)
      && (waiting.length - spared > MOST_WAITING || this.#wait(waiting[spared + 1], now) <= this.#cost)) spared += 1;
    return spared;
  }

  /** All before the newest keyframe whose time has come; without one, all up to the next if the decoder is behind. */
  #sparedChunks(now) {
    const waiting = this.#waiting;
    const shorter = waiting.findLastIndex((entry) => entry.key && this.#wait(entry, now) === 0);
    if (shorter > 0) return shorter;
    const behind = this.#given && now - this.#due(waiting[0]) > LATE;
    if (waiting[0].key || !(behind || waiting.length > MOST_WAITING)) return 0;
    const next = waiting.findIndex((entry) => entry.key || isStill(entry.track.codec));
    if (next >= 0) return next;
    this.#needsKey = true;
    this.#askForKeyframe();
    return waiting.length;
  }

  /** Opens the decoder for `track` once the one before has given what is in it; whether that is so. */
  #change(track) {
    if (this.#decoder !== null && !this.#decoder.empty) {
      this.#changeTimer ??= setTimeout(() => {
        this.#reset();
        this.#pump();
      }, CHANGE_PATIENCE);
      return false;
    }
    this.#reset();
    this.#track = track;
    if (track.codec === this.#stuck) return true;
    try {
      this.#decoder = openDecoder(track, this.#software, {
        decoded: (entry, image) => this.#decoded(entry, image),
        lost: (entry, message) => this.#lost(entry, message),
        failed: (message) => this.#failed(message),
        held: (message) => this.#trouble(message),
      });
    } catch (error) {
      this.#trouble(error.message);
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
    this.#given = false;
    for (const entry of rest) this.#skip(entry);
  }

  #decoded(entry, image) {
    const now = this.#now();
    entry.image = image;
    this.#given = true;
    this.#cost += (now - entry.fed - this.#cost) / 8;
    this.#lead?.add(entry.ptsUs / 1000, entry.arrived + now - entry.fed); // less what it waited for room
    this.#deal(entry);
    if (entry.unseen) {
      this.#skip(entry);
    } else {
      this.#ready.push(entry);
      this.#present();
    }
    this.#pump();
  }

  #lost(entry, message) {
    this.#listener.failed(entry.seq, message);
    this.#deal(entry);
    this.#pump();
  }

  /** The first error may be the stream's, and a keyframe helps; the second is the decoder's. */
  #failed(message) {
    const again = this.#now() - this.#lastError < ERROR_MEMORY;
    this.#lastError = again ? -Infinity : this.#now();
    if (again) {
      this.#trouble(message);
      return;
    }
    this.#reset();
    this.#askForKeyframe();
    this.#pump();
  }

  #trouble(message) {
    const track = this.#track;
    this.#reset();
    this.#track = track;
    this.#stuck = track.codec;
    clearTimeout(this.#keyframeTimer);
    this.#keyframeTimer = null;
    this.#listener.trouble(track.codec, this.#software, message);
    this.#pump();
  }

  /** Draws the newest picture whose time has come, and comes back for the next. */
  #present() {
    clearTimeout(this.#presentTimer);
    if (this.#closed) return;
    const now = this.#now();
    const early = this.#clock.heard === null ? 2 : EARLY;
    const place = this.#ready.findLastIndex((entry) => this.#wait(entry, now) <= early);
    if (place >= 0) {
      const older = this.#ready.splice(0, place + 1);
      const entry = older.pop();
      for (const each of older) this.#skip(each);
      this.#draw(entry);
    }
    if (this.#ready.length) {
      this.#presentTimer = setTimeout(() => {
        this.#present();
        this.#pump();
      }, this.#wait(this.#ready[0], now) - early / 2);
    }
  }

  #draw({ seq, image, track }) {
    const still = isStill(track.codec);
    const width = still ? image.width : track.width ?? image.displayWidth;
    const height = still ? image.height : track.height ?? image.displayHeight;
    this.#screen.draw(image, width, height);
    image.close?.();
    this.#listener.shown(seq, this.#now(), this.#lead?.lead ?? null, width, height);
  }

  #wait(entry, now) {
    return Math.max(0, this.#due(entry) - now);
  }

  /** When it is to be drawn: not before it came, and not much later. */
  #due({ urgent, ptsUs, arrived }) {
    const { at, heard } = this.#clock;
    const pts = ptsUs / 1000;
    let due = arrived;
    if (heard !== null) due = at + pts - heard;
    else if (!urgent && this.#lead !== null) due = this.#lead.due(pts);
    return Math.max(arrived, Math.min(due, arrived + LONGEST_HOLD));
  }

  #skip(entry) {
    entry.image?.close?.();
    this.#listener.skipped(entry.seq);
    if (!entry.dealt) this.#deal(entry);
  }

  /** The frame needs no more work here but to be drawn; said with all before it, so not while one of those does. */
  #deal(entry) {
    entry.dealt = true;
    let last = null;
    while (this.#open[0]?.dealt) last = this.#open.shift();
    if (last !== null) this.#listener.dealt(last.seq, Math.round((this.#now() - last.arrived) * 1000));
  }

  /** Now, or when the floor since the last time allows it if one is still needed then. */
  #askForKeyframe() {
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
      if (this.#needsKey) this.#askForKeyframe();
    }, wait);
  }
}
