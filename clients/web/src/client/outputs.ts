/**
 * The model's pictures: which parts of the application take them, what the client asks of the server, and its feedback.
 *
 * Whoever takes a track (a view, an iterator) is a `Taker`. The client neither requests nor decodes a track without a taker.
 */
import { DecoderFallback } from "../media/decoder-fallback.ts";
import type { TrackDescription } from "../wire/messages.ts";
import type { Packet, Session, SocketOptions } from "../wire/protocol.ts";

/** Milliseconds without a taker before the client asks the server to stop a track: a component that is mounted again costs nothing. */
const IDLE = 1000;
/** Where several take a track, a frame is answered for after this time at the latest: one that is slow must not stop the others. */
const LONGEST_SILENCE = 250;
const NONE = ["none"];

/** Takes the packets of one track, in one session after the other. */
export interface Taker {
  /** The name of the track that it takes; undefined: the model's first video track. */
  readonly wanted: string | undefined;
  /** A session has begun, or resumed on new decoders. `dealt` is to be called for each packet that it is done with, in order. */
  begin(track: TrackDescription, dealt: (seq: number, heldUs: number) => void, session: Session): void;
  describe(track: TrackDescription): void;
  /** The packet is the taker's own: it may empty the payload. */
  take(packet: Packet): void;
  /** The session is over; another may begin. */
  end(): void;
  /** Decode in software from now on. */
  preferSoftware?(): void;
  /** Whether it records, and so takes pictures while the page is hidden, too. */
  readonly recording?: boolean;
}

/** A decoder of `codec` failed because of `cause`: `video` is asked for now, or null: the same codec is decoded in software. */
export interface StepDown {
  readonly codec: string | null;
  readonly cause: string;
  readonly video: readonly string[] | null;
}

export interface OutputsListener {
  /** A packet came; called before it is given to the takers. */
  received(packet: Packet, track: TrackDescription): void;
  /** The server was asked for other tracks or codecs: what it leaves out until it has changed them is no loss. */
  asked(): void;
  steppedDown(step: StepDown): void;
}

export class Outputs {
  #listener: OutputsListener;
  #takers = new Set<Taker>();
  #session: Session | null = null;
  /** What is asked for, best first; empty: no pictures. */
  #codecs: readonly string[];
  #fallback: DecoderFallback;
  #gates = new Map<number, FeedbackGate>();
  /** What the server was last asked for, as JSON; at first what `connect` asks for before anything is taken. */
  #asked: string = JSON.stringify({ video: NONE, tracks: {} });
  #idle: ReturnType<typeof setTimeout> | undefined;
  #pauseHidden: boolean;

  /**
   * `decodable` are the codecs that a failing decoder makes way for, `codecs` those to ask for, both best first. With `pauseHidden` a hidden
   * page wants no pictures, but for takers that record; call `ask` when it is hidden or shown.
   */
  constructor(decodable: readonly string[], codecs: readonly string[], listener: OutputsListener, pauseHidden: boolean = false) {
    this.#fallback = new DecoderFallback(decodable);
    this.#codecs = codecs;
    this.#listener = listener;
    this.#pauseHidden = pauseHidden;
  }

  /** Whether decoding goes on in software. */
  get software(): boolean {
    return this.#fallback.software;
  }

  /** How often a simpler decoder was taken because another one failed. */
  get stepsDown(): number {
    return this.#fallback.count;
  }

  /** What to ask for at a new connection. Without a taker the session begins without video, which can be asked for later. */
  connecting(): Pick<SocketOptions, "video" | "tracks" | "paused"> {
    const video = this.#video;
    const tracks = this.#session === null ? {} : this.#untaken(this.#session);
    this.#asked = JSON.stringify({ video, tracks });
    if (this.#codecs.length === 0) return { video: NONE };
    return { video: this.#codecs, ...(video === NONE ? { paused: true } : { tracks }) };
  }

  get #video(): readonly string[] {
    return this.#codecs.length > 0 && this.#wanted([...this.#takers]) ? this.#codecs : NONE;
  }

  /** Whether one of these takers wants pictures now. */
  #wanted(takers: readonly Taker[]): boolean {
    const hidden = this.#pauseHidden && globalThis.document?.hidden;
    return takers.some(({ recording }) => recording || !hidden);
  }

  /** Sets what is asked for, best first. */
  setCodecs(codecs: readonly string[]): void {
    this.#codecs = codecs;
    this.ask();
  }

  add(taker: Taker): void {
    this.#takers.add(taker);
    if (this.#session !== null) this.#begin(taker, this.#session);
    this.ask();
  }

  remove(taker: Taker): void {
    if (!this.#takers.delete(taker)) return;
    for (const gate of this.#gates.values()) gate.remove(taker);
    taker.end();
    if (this.#session === null || this.#idle !== undefined) return;
    this.#idle = setTimeout(() => {
      this.#idle = undefined;
      this.ask();
    }, IDLE);
  }

  /** A session has its welcome. */
  beginSession(session: Session): void {
    this.#session = session;
    for (const taker of this.#takers) this.#begin(taker, session);
    this.ask();
  }

  endSession(): void {
    this.#session = null;
    clearTimeout(this.#idle);
    this.#idle = undefined;
    for (const gate of this.#gates.values()) gate.close();
    this.#gates.clear();
    for (const taker of this.#takers) taker.end();
  }

  /** The session goes on over another link, which was asked for something by `connecting`. */
  resumed(): void {
    for (const gate of this.#gates.values()) gate.setCadence(0);
    this.ask();
  }

  /** The server allows this client to acknowledge a track only so often; 0: each frame. */
  setCadence(track: number, everyUs: number): void {
    this.#gate(track).setCadence(everyUs / 1000);
  }

  describe(track: TrackDescription): void {
    for (const taker of this.#takersOf(track)) taker.describe(track);
  }

  /** Gives a packet to the takers of its track. */
  accept(packet: Packet): void {
    const track = this.#session?.track(packet.track);
    if (track === undefined) return;
    this.#listener.received(packet, track);
    const takers = this.#takersOf(track);
    if (isVideo(track)) {
      this.#gate(track.index).arrived(packet.seq, performance.now());
      if (takers.length === 0) this.#gate(track.index).dealtBy(null, packet.seq, 0);
    }
    // Each taker owns what it gets; the last one gets the message's own bytes.
    takers.forEach((taker, i) => taker.take(i === takers.length - 1 ? packet : { ...packet, payload: packet.payload.slice() }));
  }

  /** A decoder of this codec failed: the same codec in software, then simpler codecs, for this and later sessions. */
  stepDown(codec: string | null, software: boolean, message: string): void {
    const step = this.#fallback.next(codec, software);
    if (step === null) return;
    if (step.software) {
      for (const taker of this.#takers) taker.preferSoftware?.();
    } else {
      this.#codecs = step.video;
      this.#asked = ""; // even if it was asked for these already: what came was something else
      this.ask();
    }
    this.#listener.steppedDown({ codec, cause: message, video: step.video ?? null });
  }

  #begin(taker: Taker, session: Session): void {
    const outputs = session.tracks.filter(({ direction }) => direction === "out");
    const track = taker.wanted === undefined ? outputs.find(isVideo) : outputs.find(({ name }) => name === taker.wanted);
    if (track === undefined) return;
    const gate = this.#gate(track.index);
    gate.add(taker);
    taker.begin(track, (seq, heldUs) => gate.dealtBy(taker, seq, heldUs), session);
  }

  #gate(index: number): FeedbackGate {
    let gate = this.#gates.get(index);
    if (gate === undefined) {
      gate = new FeedbackGate((seq, heldUs) => this.#session?.feedback(index, seq, heldUs));
      this.#gates.set(index, gate);
    }
    return gate;
  }

  #takersOf(track: TrackDescription): Taker[] {
    const first = this.#session?.tracks.find(isVideo)?.name;
    return [...this.#takers].filter((taker) => (taker.wanted ?? first) === track.name);
  }

  /** Nothing for each track that nobody takes, while somebody takes another one. */
  #untaken(session: Session): { [name: string]: readonly string[] } {
    if (this.#video === NONE) return {};
    const untaken = session.tracks.filter(isVideo).filter((track) => !this.#wanted(this.#takersOf(track)));
    return Object.fromEntries(untaken.map(({ name }) => [name, NONE]));
  }

  /** Asks the server for the tracks that are taken, if it was last asked for something else. */
  ask(): void {
    const session = this.#session;
    if (session === null || !session.linked) return; // `connecting`, or `resumed`, asks
    const video = this.#video;
    const tracks = this.#untaken(session);
    const asking = JSON.stringify({ video, tracks });
    if (asking === this.#asked) return;
    this.#asked = asking;
    session.requestVideo(video, tracks);
    this.#listener.asked();
  }
}

const isVideo = ({ kind, direction }: TrackDescription): boolean => kind === "video" && direction === "out";

/**
 * Tells the server how far the slowest taker of a track is: with each frame, or as rarely as the server allows. A frame that is
 * done after that time is told at once, so that the server sees how long it took; the last one before a pause half that time later.
 */
class FeedbackGate {
  #send: (seq: number, heldUs: number) => void;
  #takers = new Map<Taker, number>();
  /** Frames that the server was not told about, in order. */
  #open: { seq: number; at: number }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Milliseconds between two tellings, and when the last one was. */
  #cadence = 0;
  #told = Number.NEGATIVE_INFINITY;
  #rest: ReturnType<typeof setTimeout> | undefined;

  constructor(send: (seq: number, heldUs: number) => void) {
    this.#send = send;
  }

  /** A taker that comes now answers for the frames from now on. */
  add(taker: Taker): void {
    this.#takers.set(taker, this.#open.at(-1)?.seq ?? -1);
  }

  remove(taker: Taker): void {
    this.#takers.delete(taker);
    this.#tell(performance.now());
  }

  arrived(seq: number, at: number): void {
    this.#open.push({ seq, at });
    this.#timer ??= setTimeout(() => this.#overdue(), LONGEST_SILENCE);
  }

  /** `taker` is done with this frame and all before it, `heldUs` after it came; null: nobody takes the track. */
  dealtBy(taker: Taker | null, seq: number, heldUs: number): void {
    if (taker !== null) {
      if (!this.#takers.has(taker)) return; // it has left, and closes its decoder
      this.#takers.set(taker, seq);
    }
    this.#tell(performance.now(), taker !== null && this.#takers.size === 1 ? heldUs : null);
  }

  /** Tell only so often, in milliseconds; 0: with each frame. */
  setCadence(cadence: number): void {
    this.#cadence = cadence;
    this.#tell(performance.now());
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    clearTimeout(this.#rest);
    this.#open = [];
  }

  get #slowest(): number {
    return this.#takers.size === 0 ? Number.POSITIVE_INFINITY : Math.min(...this.#takers.values());
  }

  #tell(now: number, heldUs: number | null = null): void {
    const wait = this.#told + this.#cadence - now;
    if (wait <= 0) this.#tellUpTo(this.#slowest, now, heldUs);
    else this.#rest ??= setTimeout(() => this.#tellRest(), wait + this.#cadence / 2);
  }

  #tellRest(): void {
    this.#rest = undefined;
    this.#tellUpTo(this.#slowest, performance.now(), null);
  }

  #tellUpTo(seq: number, now: number, heldUs: number | null): void {
    const last = this.#open.findLastIndex((frame) => frame.seq <= seq);
    if (last < 0) return;
    const frame = this.#open[last] as { seq: number; at: number };
    this.#open.splice(0, last + 1);
    this.#told = now;
    clearTimeout(this.#rest);
    this.#rest = undefined;
    this.#send(frame.seq, heldUs ?? Math.round((now - frame.at) * 1000));
  }

  #overdue(): void {
    this.#timer = undefined;
    const now = performance.now();
    const slowest = this.#slowest;
    const shared = this.#takers.size > 1;
    const late = shared ? this.#open.findLast(({ seq, at }) => seq > slowest && now - at >= LONGEST_SILENCE) : undefined;
    if (late !== undefined) this.#tellUpTo(late.seq, now, null);
    const next = this.#open.find(({ seq }) => seq > slowest);
    const wait = shared && next !== undefined ? next.at + LONGEST_SILENCE - now : LONGEST_SILENCE;
    if (next !== undefined) this.#timer = setTimeout(() => this.#overdue(), wait);
  }
}
