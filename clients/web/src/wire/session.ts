/** The session: what the server says, in order, as events, and what a client says to it. */

import { CommandOutbox } from "./command-outbox.ts";
import { CommandError } from "./errors.ts";
import type { Admitted, Bye, Queued, RuntimeMessage, Settings, TextMessage, TrackDescription, Welcome } from "./messages.ts";
import type { Packet } from "./packet.ts";
import type { Applied, ModelMessage, SessionEvents } from "./session-events.ts";
import { SettingValues } from "./setting-values.ts";
import { ABANDONED, leave, OPEN } from "./socket.ts";
import { TypedEvents } from "./typed-events.ts";

/** The reason of a session that ended because the server does not speak this protocol. */
export const BROKEN = "protocol_error";
const NOT_OURS = "The server's reactor.welcome is none of protocol version 1.";
// Close codes that end the session; after any other code the server may keep it.
const FINAL_CODES = new Set([1000, 1002, 1005, 1007, 1009]);
const REPLICA_FAILED = "The replica that has a place for this page could not be reached, or refused it.";

/** What came of trying to resume: see `Session.resume`. */
export type Resumption = "resumed" | "gone" | "failed" | Bye;

/** One session, on one socket after another. `SessionEvents` says what its events mean; the `detail` of each is the event's data. */
export class Session extends TypedEvents<SessionEvents> {
  #socket: WebSocket | null = null;
  #comesBack: boolean;
  #follow: ((admitted: Admitted) => WebSocket) | null;
  #redirected = false;
  #commands = new CommandOutbox(() => this.#socket);
  #tracks = new Map<number, TrackDescription>();
  #settings = new SettingValues();
  #lostAt = 0;
  #bye: Bye | null = null;
  #opened = false;
  #over = false;
  welcome: Welcome | null = null;
  /** Whether the controlling client has paused the session. */
  paused = false;
  /** The highest `n` of the server's messages; the next connection requests those after it. */
  newest: number;
  /** When the newest message came, as `performance.now()`, and whether the server sends beats. */
  heardAt = 0;
  beats = false;
  /** Decodes a packet; throws if it is none. Without it packets are left out. */
  decode: ((bytes: Uint8Array<ArrayBuffer>) => Packet) | null = null;
  /** The WebSocket address of the session, without a query. */
  url: string;

  /** `follow` opens a socket from the data of `reactor.admitted`; without it the server must not be a gate. */
  constructor(
    socket: WebSocket,
    {
      url,
      comesBack = false,
      after,
      follow = null,
    }: {
      url: string;
      comesBack?: boolean;
      after?: number | null | undefined;
      follow?: ((admitted: Admitted) => WebSocket) | null;
    },
  ) {
    super();
    this.url = url;
    this.#comesBack = comesBack;
    this.#follow = follow;
    this.newest = after ?? 0;
    this.#adopt(socket);
  }

  #adopt(socket: WebSocket): void {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const mine =
      <E extends Event>(take: (event: E) => void) =>
      (event: E): void => {
        if (socket === this.#socket) take(event);
      };
    socket.addEventListener(
      "open",
      mine(() => {
        this.#opened = true;
        this.heardAt = performance.now();
      }),
    );
    socket.addEventListener(
      "message",
      mine(({ data }: MessageEvent) => {
        this.heardAt = performance.now();
        if (typeof data === "string") this.#text(data);
        else this.#binary(data);
      }),
    );
    socket.addEventListener(
      "close",
      mine(({ code }: CloseEvent) => this.#closed(code)),
    );
    // `close` follows `error` at once. But WebKit sends no `close` for a socket that a policy or its port forbids.
    socket.addEventListener("error", () =>
      setTimeout(() => {
        if (socket === this.#socket && !this.#over) this.#closed(1006);
      }),
    );
  }

  /** Whether the session has a link; while it has none, commands wait. */
  get linked(): boolean {
    return this.#socket !== null;
  }

  /** Whether the session has ended for this client. */
  get over(): boolean {
    return this.#over;
  }

  /** Abandons the link, even if the socket still looks open. `lost` follows if the session can resume, else `closed`. */
  drop(): void {
    const socket = this.#socket;
    if (socket === null) return;
    this.#socket = null; // what it still says is not heard
    leave(socket, ABANDONED);
    this.#closed(1006);
  }

  /**
   * Continues over `socket`, which has requested this session. Resolves with "resumed"; "gone" if the server no longer has the
   * session; what the server said instead of it, which may be a refusal; or "failed" if the server did not answer within `patience` ms,
   * so another try may succeed.
   */
  resume(socket: WebSocket, patience: number): Promise<Resumption> {
    socket.binaryType = "arraybuffer";
    return new Promise((resolve) => {
      const done = (answer: Resumption, code = ABANDONED): void => {
        clearTimeout(timer);
        heard.abort();
        if (answer !== "resumed") leave(socket, code);
        resolve(answer);
      };
      const heard = new AbortController();
      const timer = setTimeout(() => done("failed"), patience);
      socket.addEventListener("close", ({ code }) => done(FINAL_CODES.has(code) ? "gone" : "failed"), { signal: heard.signal });
      socket.addEventListener(
        "message",
        ({ data }) => {
          const message = parsed(data as string);
          if (this.#over || !this.#isResumption(message)) {
            done(!this.#over && message?.type === "reactor.bye" && message.data ? (message.data as Bye) : "gone", 1000);
            return;
          }
          if (!isWhole(message.data, this.#commands.lastId)) {
            done({ reason: BROKEN, message: NOT_OURS });
            return;
          }
          done("resumed");
          this.#adopt(socket);
          this.#continue(message.data);
        },
        { once: true, signal: heard.signal },
      );
    });
  }

  /** Ends a lost session that will not resume. `reason`: that of a goodbye, or null. */
  end(message: string, reason: string | null = null): void {
    if (this.#socket === null) this.#finish(1006, reason, message);
  }

  /** The current track descriptions, by index. */
  get tracks(): TrackDescription[] {
    return [...this.#tracks.values()];
  }

  track(index: number): TrackDescription | undefined {
    return this.#tracks.get(index);
  }

  /** The value of each setting by its field's name, as sent by the server or set by this client since. */
  get state(): Settings {
    return this.#settings.values;
  }

  /**
   * Sends a command. Resolves with {id, step, reply} when the model has applied it; a save or a fork, when its world is in the store. Rejects with a CommandError if it is refused,
   * with the code "closed" if the session ends before the answer, and with a TypeError for a value without a JSON form. While the link is lost, or about to be, the command waits.
   */
  async command(type: string, data: { readonly [argument: string]: unknown } = {}): Promise<Applied> {
    if (this.#over || (this.welcome === null && this.#socket?.readyState !== OPEN)) throw new CommandError("closed", "not connected", type);
    const { id, answer } = this.#commands.add(type, data);
    this.#settings.sent(id, type, data);
    this.#emit("sent", { id, type }); // before it leaves: its latency begins here, and a socket's `send` can take milliseconds
    this.#commands.flush();
    return answer;
  }

  /**
   * Tells the server that frame `seq` of a track and all before it are decoded or deliberately dropped.
   * `heldUs` is the time from the frame's arrival until then, in microseconds.
   */
  feedback(track: number, seq: number, heldUs: number): void {
    this.#sendRuntime("reactor.feedback", { track, seq, held_us: heldUs });
  }

  /** Requests a keyframe. */
  keyframe(track: number): void {
    this.#sendRuntime("reactor.keyframe", { track });
  }

  /**
   * Requests other video codecs, best first; ["none"] stops the video. `tracks` has lists of their own for tracks by name.
   * A `track` event follows.
   */
  requestVideo(codecs: readonly string[], tracks: { readonly [name: string]: readonly string[] } = {}): void {
    this.#sendRuntime("reactor.video", { video: codecs, ...(Object.keys(tracks).length > 0 ? { tracks } : {}) });
  }

  /** Sends an encoded packet of an input track; returns whether the connection accepted it. */
  send(packet: Uint8Array<ArrayBuffer>): boolean {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(packet);
    return true;
  }

  /** Bytes that wait in the socket. Skip packets while this is large. */
  get bufferedAmount(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** Leaves and ends the session. `closed` comes at once: a dead link may never say that it is closed, or say that it was lost. */
  close(): void {
    const socket = this.#socket;
    this.#socket = null; // what it still says is not heard
    if (socket !== null) leave(socket, 1000);
    this.#finish(1000, "client_left", "");
  }

  #isResumption(message: TextMessage | null): message is { type: string; data: Welcome } {
    const data = message?.data as Welcome | undefined;
    return message?.type === "reactor.welcome" && data?.resumed === true && data.session_id === this.welcome?.session_id;
  }

  #continue(welcome: Welcome): void {
    const seconds = (performance.now() - this.#lostAt) / 1000;
    const { paused } = this;
    const { received = 0, missed = 0 } = welcome;
    this.#commands.hold();
    this.#begin(welcome);
    this.#commands.resume(received, missed);
    this.#emit("resumed", { seconds, missed });
    this.#emit("state", this.state);
    if (this.paused !== paused) this.#emit("transport", { paused: this.paused });
    for (const track of this.#tracks.values()) {
      if (track.direction === "out") this.#emit("track", track);
      else this.#emit("keyframe", { track: track.index });
    }
    if (!this.#over) this.#commands.catchUp();
  }

  /** Follows a gate to the assigned replica. */
  #redirect(admitted: Admitted): void {
    const gate = this.#socket;
    try {
      if (this.#follow === null || this.#redirected || this.welcome) throw new TypeError("only a gate sends its clients elsewhere");
      this.#adopt(this.#follow(admitted));
    } catch (error) {
      // also an invalid address, or one that this page may not connect to
      this.#emitBroken("reactor.admitted", error);
      gate?.close(ABANDONED);
      return;
    }
    gate?.close(1000);
    this.#redirected = true;
    this.url = admitted.url;
    this.#emit("admitted", { url: admitted.url });
  }

  #begin(welcome: Welcome): void {
    this.welcome = welcome;
    this.heardAt = performance.now(); // also of a socket that resumes, whose first message comes another way
    this.paused = welcome.paused ?? false;
    this.#settings.begin(welcome.state);
    this.#tracks = new Map(welcome.tracks.map((track) => [track.index, track]));
  }

  #sendRuntime(type: string, data: object): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(JSON.stringify({ type, data }));
  }

  /** Nothing follows the end: a listener of another event may have left the session. */
  #emit<Name extends keyof SessionEvents>(type: Name, detail: SessionEvents[Name]): void {
    if (!this.#over || type === "closed") this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  /** The server has sent what the protocol does not have. */
  #emitBroken(what: string, error: unknown): void {
    this.#emit("error", { code: "protocol_error", message: `${what}: ${(error as Error).message}` });
  }

  #binary(data: ArrayBuffer): void {
    if (this.decode === null) return;
    let frame: Packet;
    try {
      frame = this.decode(new Uint8Array(data));
    } catch (error) {
      this.#emitBroken("not a packet of the protocol", error);
      return;
    }
    this.#emit("frame", frame);
  }

  #text(text: string): void {
    let message: TextMessage;
    try {
      message = JSON.parse(text);
      if (typeof message?.type !== "string") throw new TypeError("it has no type");
    } catch (error) {
      this.#emitBroken("not a message of the protocol", error);
      return;
    }
    const { type, n } = message;
    const data = message.data ?? {};
    if (type !== "reactor.welcome" && type !== "reactor.bye" && n !== undefined) {
      if (n <= this.newest) return; // a message that had arrived before the link was lost
      this.newest = n;
    }
    // A newer server may have other messages of its own; only the model's messages are events.
    if (type.startsWith("reactor.")) this.#runtimeMessage({ ...message, data } as RuntimeMessage);
    else this.#emit("message", { type, data, ...(n === undefined ? {} : { n }) } as ModelMessage);
  }

  #runtimeMessage(message: RuntimeMessage): void {
    switch (message.type) {
      case "reactor.queued":
      case "reactor.keyframe":
      case "reactor.cadence":
      case "reactor.ending":
      case "reactor.late":
      case "reactor.moment":
        this.#emit(message.type.slice(8) as "queued", message.data as Queued); // the event has the name and the data of the message
        break;
      case "reactor.admitted":
        this.#redirect(message.data);
        break;
      case "reactor.welcome":
        if (!isWhole(message.data, Infinity)) {
          leave(this.#socket as WebSocket, ABANDONED);
          this.#finish(ABANDONED, BROKEN, NOT_OURS);
          return;
        }
        this.#begin(message.data);
        // Another page began this session; continue its numbers of commands.
        if (message.data.resumed) this.#commands.continueFrom(message.data.received ?? 0);
        else this.newest = message.n ?? 0;
        this.#commands.hold();
        this.#emit("welcome", message.data);
        if (!this.#over) this.#commands.catchUp(); // with what listeners have given
        break;
      case "reactor.state":
        this.#settings.told(message.data);
        this.#emit("state", message.data);
        break;
      case "reactor.track":
        this.#tracks.set(message.data.index, message.data);
        this.#emit("track", message.data);
        break;
      case "reactor.transport":
        this.paused = message.data.paused;
        this.#emit("transport", message.data);
        break;
      case "reactor.ack": {
        const { id, data } = message;
        this.#settings.applied(id);
        this.#commands.applied(id, data.step, data.reply);
        break;
      }
      case "reactor.saved":
        this.#commands.saved(message.data);
        break;
      case "reactor.error": {
        const { id, data } = message;
        this.#settings.refused(id);
        if (!this.#commands.refused(id, data.code, data.message)) this.#emit("error", data);
        break;
      }
      case "reactor.bye":
        this.#bye = message.data;
        this.#emit("bye", message.data);
        break;
      case "reactor.beat":
        this.beats = true;
        break;
    }
  }

  #mayResume(code: number): boolean {
    const kept = this.#bye === null || this.#bye.reason === "too_slow";
    return this.#comesBack && Boolean(this.welcome?.resume_token) && kept && !FINAL_CODES.has(code);
  }

  #closed(code: number): void {
    if (!this.#mayResume(code)) {
      const words = this.#redirected && this.welcome === null ? REPLICA_FAILED : "";
      this.#finish(code, this.#bye?.reason ?? null, this.#bye?.message ?? words);
      return;
    }
    this.#commands.hold();
    this.#bye = null;
    this.#socket = null;
    this.#lostAt = performance.now();
    this.#emit("lost", { code });
  }

  #finish(code: number, reason: string | null, message: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#commands.end();
    this.#emit("closed", { code, reason, message, opened: this.#opened, welcomed: this.welcome !== null });
  }
}

/** Whether a session can begin, or go on, with this welcome. `sent` is the number of the newest command. */
function isWhole({ protocol = 1, tracks, received = 0 }: Welcome, sent: number): boolean {
  const described = Array.isArray(tracks) && tracks.every((track) => typeof track?.index === "number");
  return protocol === 1 && described && Number.isInteger(received) && received >= 0 && received <= sent;
}

/** The JSON in a text message, or null. */
function parsed(text: string): TextMessage | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
