/** `reactor-trio/testing`: a server that a test plays by hand, without a network and without time. */

import type { CommandDescription, TransportAction } from "./wire/messages.ts";
import { encodePacket, type OutgoingPacket } from "./wire/packet-encoder.ts";
import type { TrackDescription, Welcome } from "./wire/protocol.ts";
import { SUBPROTOCOL } from "./wire/protocol.ts";

/** What a client has sent: a command or a message of the runtime as JSON, or the bytes of an input packet. */
export interface SentText {
  readonly type: string;
  readonly data: { readonly [name: string]: unknown };
  readonly id?: number;
}

export interface ScriptedModel {
  readonly name?: string;
  readonly commands?: readonly CommandDescription[];
  readonly tracks?: readonly (Pick<TrackDescription, "name"> & Partial<TrackDescription>)[];
  /** What a client may do with it; by default nothing. */
  readonly transport?: readonly TransportAction[];
}

/** The server's end of one WebSocket. Every method acts at once. */
export class ScriptedConnection {
  /** The address with its query: what the client asks for. */
  readonly url: URL;
  /** What the client has sent and nobody has taken by `next`. */
  readonly received: SentText[] = [];
  readonly packets: Uint8Array[] = [];
  #socket: ScriptedSocket;
  #model: ScriptedModel;
  #takers: ((message: SentText) => void)[] = [];
  #n = 0;

  constructor(socket: ScriptedSocket, model: ScriptedModel) {
    this.#socket = socket;
    this.#model = model;
    this.url = new URL(socket.url);
  }

  /** The close code of the client; null while it has not closed. */
  get closed(): number | null {
    return this.#socket.closedWith;
  }

  /** Opens the socket, as each message does if need be. */
  open(): void {
    this.#socket.open();
  }

  /**
   * Opens the socket if need be, and begins a session. With `{resumed: true}` the session goes on: say what the client has missed
   * again, that is what came after the number `after` of its address; the numbers go on from there.
   */
  welcome(more: Partial<Welcome> = {}): void {
    const { name = "scripted", commands = [], transport = [] } = this.#model;
    const tracks = (this.#model.tracks ?? [{ name: "main_video" }]).map((track, index) => ({ ...TRACK, index, ...track }));
    this.say("reactor.welcome", {
      session_id: "s",
      protocol: 1,
      name,
      role: "control",
      heartbeat: 10,
      resume_token: null,
      upload_token: null,
      schema: { name, protocol: 1, tracks, commands, messages: [] },
      tracks,
      state: {},
      transport,
      paused: false,
      ...more,
    });
    if (more.resumed) this.#n = Number(this.url.searchParams.get("after"));
  }

  /** Sends a message of the runtime or of the model, numbered as a server numbers it. */
  say(type: string, data: object = {}, id?: number): void {
    const numbered = type !== "reactor.queued" && type !== "reactor.beat";
    this.#socket.hear(JSON.stringify({ type, data, ...(id === undefined ? {} : { id }), ...(numbered ? { n: ++this.#n } : {}) }));
  }

  /** Sends a packet of a track. */
  frame(packet: Partial<OutgoingPacket> & { readonly payload: Uint8Array }): void {
    this.#socket.hear(encodePacket({ track: 0, seq: 0, ptsUs: 0, ...packet }).buffer);
  }

  /** Answers a command: it is applied. */
  ack(id: number, reply: unknown = null, step = 0): void {
    this.say("reactor.ack", { step, reply }, id);
  }

  /** Answers a command: it is refused. */
  error(id: number, code: string, message: string): void {
    this.say("reactor.error", { code, message }, id);
  }

  /** Ends the session. */
  bye(reason: string, more: object = {}, code = 1000): void {
    this.say("reactor.bye", { reason, ...more });
    this.#socket.end(code);
  }

  /** Does not let the client in. */
  refuse(status: number, message = "", retryAfter: number | null = null, code: string | null = null): void {
    this.bye("refused", { status, message, retry_after: retryAfter, code }, 1008);
  }

  /** Breaks the link; the socket was never open if nothing was said yet. */
  lose(code = 1006): void {
    this.#socket.end(code);
  }

  /** The next message of the client, in order; feedback, which depends on time, is left out. */
  next(): Promise<SentText> {
    const message = this.received.shift();
    return message === undefined ? new Promise((resolve) => this.#takers.push(resolve)) : Promise.resolve(message);
  }

  /** Called by the socket. */
  take(data: string | Uint8Array): void {
    if (typeof data !== "string") {
      this.packets.push(data);
      return;
    }
    const message = JSON.parse(data) as SentText;
    if (message.type === "reactor.feedback") return;
    const taker = this.#takers.shift();
    if (taker === undefined) this.received.push(message);
    else taker(message);
  }
}

const TRACK: Omit<TrackDescription, "index" | "name"> = {
  kind: "video",
  direction: "out",
  codec: "jpeg",
  codec_string: null,
  width: null,
  height: null,
  pixel_format: null,
  color: null,
  sample_rate: null,
};

/** The client's end: what the option `WebSocket` of `connect` makes. */
class ScriptedSocket extends EventTarget {
  readonly url: string;
  readonly protocol: string = SUBPROTOCOL;
  readonly bufferedAmount = 0;
  binaryType = "arraybuffer";
  readyState = 0;
  closedWith: number | null = null;
  connection!: ScriptedConnection;
  /** Called when the client listens: only then can a server say anything. */
  listened: () => void = () => {};

  constructor(url: string) {
    super();
    this.url = url;
  }

  override addEventListener(...args: Parameters<EventTarget["addEventListener"]>): void {
    super.addEventListener(...args);
    if (args[0] !== "message") return;
    queueMicrotask(this.listened);
    this.listened = () => {};
  }

  send(data: string | Uint8Array): void {
    if (this.readyState !== 1) throw new TypeError("the socket is not open");
    this.connection.take(data);
  }

  close(code = 1000): void {
    this.closedWith ??= code;
    this.end(code);
  }

  open(): void {
    if (this.readyState !== 0) return;
    this.readyState = 1;
    this.dispatchEvent(new Event("open"));
  }

  hear(data: string | ArrayBuffer): void {
    this.open();
    if (this.readyState === 1) this.dispatchEvent(Object.assign(new Event("message"), { data }));
  }

  end(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    queueMicrotask(() => this.dispatchEvent(Object.assign(new Event("close"), { code, reason: "" })));
  }
}

export interface ScriptedServer {
  /** For the option `WebSocket` of `connect`. */
  readonly WebSocket: new (
    url: string,
    protocols: string[],
  ) => WebSocket;
  /** The next connection that a client opens, in order. */
  connection(): Promise<ScriptedConnection>;
  /** How many connections were opened. */
  readonly opened: number;
}

/** A server whose model has these commands and tracks (by default one video track). */
export function scriptedServer(model: ScriptedModel = {}): ScriptedServer {
  const waiting: ScriptedConnection[] = [];
  const takers: ((connection: ScriptedConnection) => void)[] = [];
  let opened = 0;
  class Opened extends ScriptedSocket {
    constructor(url: string) {
      super(url);
      opened += 1;
      this.connection = new ScriptedConnection(this, model);
      this.listened = () => {
        const taker = takers.shift();
        if (taker === undefined) waiting.push(this.connection);
        else taker(this.connection);
      };
    }
  }
  return {
    WebSocket: Opened as unknown as ScriptedServer["WebSocket"],
    connection: () => {
      const connection = waiting.shift();
      return connection === undefined ? new Promise((resolve) => takers.push(resolve)) : Promise.resolve(connection);
    },
    get opened() {
      return opened;
    },
  };
}
