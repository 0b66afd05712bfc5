/**
 * Wire protocol, version 1, for browsers and Node: one module without imports, to be used by other pages too.
 *
 *     import { connect } from "./page/protocol.js";
 *     const session = connect({ url: "ws://127.0.0.1:8080/ws" });
 *     session.addEventListener("frame", ({ detail }) => show(detail.track, detail.payload));
 *     session.addEventListener("welcome", () => session.command("set_brightness", { brightness: 0.5 }));
 *
 * Everything that the server says becomes one event of the session, in the order in which it was said. Nothing here
 * reconnects, paces or draws.
 */

export const SUBPROTOCOL = "reactor.v1";
export const KEYFRAME = 1;

/** A command was refused and changed nothing; `code` is a word of the protocol or of the model's author. */
export class CommandError extends Error {
  constructor(code, message) {
    super(message || code);
    this.name = "CommandError";
    this.code = code;
  }
}

/**
 * Open a session. `url` is the WebSocket address without a query; `video` the codecs that the caller can show, best
 * first, as a list or comma-separated ("h264", "vp8", "vp9", "av1", "lossless", "jpeg", "raw", "none"); `audio` the same for
 * sound ("opus", "pcm_s16le", "none"); `role` is "control" or "viewer"; `model` and `token` are
 * left out when empty; `feedback` says that the caller will send it, so that the server sends no more than is taken from the
 * first frame on. The answer is a `Session` at once; its events tell how the connection fares.
 */
export function connect({ url, video = "jpeg", audio, role, model, token, feedback = false, WebSocket = globalThis.WebSocket }) {
  const address = new URL(url);
  const query = { video: String(video), audio: audio && String(audio), role, model, token, feedback: feedback && "1" };
  for (const [name, value] of Object.entries(query)) if (value) address.searchParams.set(name, value);
  return new Session(new WebSocket(address.href, [SUBPROTOCOL]));
}

/**
 * One session on one socket. Events, each a CustomEvent whose `detail` is:
 *
 *   queued   {position, total}         waiting; position counts from 1
 *   ending   {reason, seconds}         it will end so soon, with null not any more
 *   welcome  the data of the welcome   the session has begun; `session.welcome` and `session.tracks` are set
 *   track    a track description       size or codec changed, before the first frame of it
 *   frame    {track, seq, ptsUs, flags, command, step, meta, payload}   payload is a view, valid as long as it is kept
 *   keyframe {track}                   the server cannot decode an input track further without a keyframe
 *   message  {type, data, n}           a message of the model
 *   sent     {id, type}                a command has left
 *   error    {code, message}           an error that answers no command of ours, or something that is no message
 *   bye      {reason, message}         the server ends it; `closed` follows
 *   closed   {code, reason, message, opened, welcomed}   the last event; reason is that of the bye, or null
 */
export class Session extends EventTarget {
  #socket;
  #answers = new Map();
  #tracks = new Map();
  #lastId = 0;
  #bye = null;
  #opened = false;
  welcome = null;

  constructor(socket) {
    super();
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => { this.#opened = true; });
    socket.addEventListener("message", ({ data }) => (typeof data === "string" ? this.#text(data) : this.#binary(data)));
    socket.addEventListener("close", ({ code }) => this.#closed(code));
  }

  /** The current track descriptions, by index. */
  get tracks() {
    return [...this.#tracks.values()];
  }

  track(index) {
    return this.#tracks.get(index);
  }

  /**
   * Send a command. Resolves with {id, step, reply} once it is applied; rejects with a CommandError when it is refused,
   * and with one of code "closed" when the connection ends before the answer.
   */
  command(type, data = {}) {
    if (this.#socket.readyState !== 1) return Promise.reject(new CommandError("closed", "not connected"));
    const id = ++this.#lastId;
    const answer = new Promise((resolve, reject) => this.#answers.set(id, { resolve, reject }));
    this.#socket.send(JSON.stringify({ type, data, id }));
    this.#tell("sent", { id, type });
    return answer;
  }

  /**
   * Tell the server that frame `seq` of a track and all before it have been dealt with: decoded, or left out by choice.
   * `heldUs` are the microseconds from its arrival until then.
   */
  feedback(track, seq, heldUs) {
    this.#runtime("reactor.feedback", { track, seq, held_us: heldUs });
  }

  /** Ask for a picture that can be decoded without those before it. */
  keyframe(track) {
    this.#runtime("reactor.keyframe", { track });
  }

  /** From now on these codecs for video are decoded here, best first; ["none"] for no video. A `track` event follows. */
  requestVideo(codecs) {
    this.#runtime("reactor.video", { video: codecs });
  }

  /**
   * Send a packet of an input track: `track` is its index, `seq` counts its frames from 0, also those that were not sent,
   * and `ptsUs` is when it was captured, in microseconds since this client's first packet. Whether the connection took it.
   */
  push(packet) {
    if (this.#socket.readyState !== 1) return false;
    this.#socket.send(encodePacket(packet));
    return true;
  }

  /** Bytes handed over that the network has not taken yet: who pushes media skips some while this is large. */
  get bufferedAmount() {
    return this.#socket.bufferedAmount;
  }

  close() {
    this.#socket.close(1000);
  }

  #runtime(type, data) {
    if (this.#socket.readyState === 1) this.#socket.send(JSON.stringify({ type, data }));
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #binary(data) {
    let frame;
    try {
      frame = decodePacket(new Uint8Array(data));
    } catch (error) {
      this.#tell("error", { code: "protocol_error", message: `not a packet of the protocol: ${error.message}` });
      return;
    }
    this.#tell("frame", frame);
  }

  #text(text) {
    let message;
    try {
      message = JSON.parse(text);
      if (typeof message?.type !== "string") throw new TypeError("it has no type");
    } catch (error) {
      this.#tell("error", { code: "protocol_error", message: `not a message of the protocol: ${error.message}` });
      return;
    }
    const { type, id, n, data = {} } = message;
    switch (type) {
      case "reactor.queued":
        this.#tell("queued", data);
        break;
      case "reactor.welcome":
        this.welcome = data;
        this.#tracks = new Map(data.tracks.map((track) => [track.index, track]));
        this.#tell("welcome", data);
        break;
      case "reactor.track":
        this.#tracks.set(data.index, data);
        this.#tell("track", data);
        break;
      case "reactor.keyframe":
        this.#tell("keyframe", data);
        break;
      case "reactor.ack":
        this.#answer(id)?.resolve({ id, step: data.step, reply: data.reply });
        break;
      case "reactor.error": {
        const waiting = this.#answer(id);
        if (waiting) waiting.reject(Object.assign(new CommandError(data.code, data.message), { id }));
        else this.#tell("error", data);
        break;
      }
      case "reactor.ending":
        this.#tell("ending", data);
        break;
      case "reactor.bye":
        this.#bye = data;
        this.#tell("bye", data);
        break;
      default:
        // A later server may say more of its own; only what the model says is the user's.
        if (!type.startsWith("reactor.")) this.#tell("message", { type, data, n });
    }
  }

  #answer(id) {
    const waiting = this.#answers.get(id);
    this.#answers.delete(id);
    return waiting;
  }

  #closed(code) {
    for (const { reject } of this.#answers.values()) reject(new CommandError("closed", "the connection ended"));
    this.#answers.clear();
    const { reason = null, message = "" } = this.#bye ?? {};
    this.#tell("closed", { code, reason, message, opened: this.#opened, welcomed: this.welcome !== null });
  }
}

/** The frame in one binary message; throws if it is not one. */
export function decodePacket(bytes) {
  const fields = decodeMessagePack(bytes);
  if (!Array.isArray(fields) || fields.length < 8) throw new TypeError("expected an array of 8");
  const [track, seq, ptsUs, flags, command, step, meta, payload] = fields;
  if (!(payload instanceof Uint8Array)) throw new TypeError("the payload is not binary");
  if (![track, seq, ptsUs, flags, step].every(Number.isSafeInteger)) throw new TypeError("a number is not an integer");
  return { track, seq, ptsUs, flags, command, step, meta, payload };
}

/** One binary message for a frame; the inverse of `decodePacket`. */
export function encodePacket({ track, seq, ptsUs, flags = KEYFRAME, command = null, step = 0, meta = {}, payload }) {
  const head = encodeMessagePack([track, seq, ptsUs, flags, command, step, meta]);
  const bytes = new Uint8Array(head.length + 5 + payload.length);
  bytes.set(head);
  bytes[0] = 0x98; // the payload is the eighth
  bytes[head.length] = 0xc6;
  new DataView(bytes.buffer).setUint32(head.length + 1, payload.length);
  bytes.set(payload, head.length + 5);
  return bytes;
}

/** `value` (null, boolean, number, string, array of fewer than 16, plain object of fewer than 16 keys) as MessagePack. */
export function encodeMessagePack(value) {
  const bytes = [];
  const fixed = (head, size, write) => {
    const view = new DataView(new ArrayBuffer(size));
    write(view);
    bytes.push(head, ...new Uint8Array(view.buffer));
  };
  const short = (head, length) => {
    if (length > 15) throw new RangeError(`${length} entries are more than this encoder writes`);
    bytes.push(head | length);
  };

  function integer(number) {
    if (number >= -32 && number < 0x80) bytes.push(number & 0xff);
    else if (number < 0) fixed(0xd3, 8, (view) => view.setBigInt64(0, BigInt(number)));
    else if (number < 0x100) bytes.push(0xcc, number);
    else if (number < 0x10000) fixed(0xcd, 2, (view) => view.setUint16(0, number));
    else if (number < 0x100000000) fixed(0xce, 4, (view) => view.setUint32(0, number));
    else fixed(0xcf, 8, (view) => view.setBigUint64(0, BigInt(number)));
  }

  function string(words) {
    const utf8 = new TextEncoder().encode(words);
    if (utf8.length < 32) bytes.push(0xa0 | utf8.length);
    else fixed(0xdb, 4, (view) => view.setUint32(0, utf8.length));
    bytes.push(...utf8);
  }

  function write(item) {
    if (item === null || item === undefined) bytes.push(0xc0);
    else if (typeof item === "boolean") bytes.push(item ? 0xc3 : 0xc2);
    else if (Number.isSafeInteger(item)) integer(item);
    else if (typeof item === "number") fixed(0xcb, 8, (view) => view.setFloat64(0, item));
    else if (typeof item === "string") string(item);
    else if (Array.isArray(item)) {
      short(0x90, item.length);
      item.forEach(write);
    } else if (typeof item === "object") {
      const entries = Object.entries(item);
      short(0x80, entries.length);
      for (const entry of entries) entry.forEach(write);
    } else throw new TypeError(`no MessagePack for a ${typeof item}`);
  }

  write(value);
  return new Uint8Array(bytes);
}

const text = new TextDecoder("utf-8", { fatal: true });

/**
 * The one MessagePack value in `bytes`; throws if it is cut short or followed by more. Binary values are views of
 * `bytes`. Integers beyond 2^53 become BigInt, extensions become {type, data}.
 */
export function decodeMessagePack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  function take(length) {
    if (at + length > bytes.length) throw new RangeError("cut short");
    at += length;
    return at - length;
  }
  const uint8 = () => view.getUint8(take(1));
  const uint16 = () => view.getUint16(take(2));
  const uint32 = () => view.getUint32(take(4));
  const exact = (big) => (Number.isSafeInteger(Number(big)) ? Number(big) : big);
  const bin = (length) => bytes.subarray(take(length), at);
  const str = (length) => text.decode(bin(length));
  const ext = (length) => ({ type: view.getInt8(take(1)), data: bin(length) });

  function array(length) {
    const items = [];
    for (let i = 0; i < length; i++) items.push(value());
    return items;
  }

  function map(length) {
    const entries = [];
    for (let i = 0; i < length; i++) entries.push([value(), value()]);
    return Object.fromEntries(entries); // defines keys such as __proto__ instead of assigning them
  }

  function value() {
    const head = uint8();
    if (head < 0x80) return head;
    if (head < 0x90) return map(head & 0x0f);
    if (head < 0xa0) return array(head & 0x0f);
    if (head < 0xc0) return str(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return bin(uint8());
      case 0xc5: return bin(uint16());
      case 0xc6: return bin(uint32());
      case 0xc7: return ext(uint8());
      case 0xc8: return ext(uint16());
      case 0xc9: return ext(uint32());
      case 0xca: return view.getFloat32(take(4));
      case 0xcb: return view.getFloat64(take(8));
      case 0xcc: return uint8();
      case 0xcd: return uint16();
      case 0xce: return uint32();
      case 0xcf: return exact(view.getBigUint64(take(8)));
      case 0xd0: return view.getInt8(take(1));
      case 0xd1: return view.getInt16(take(2));
      case 0xd2: return view.getInt32(take(4));
      case 0xd3: return exact(view.getBigInt64(take(8)));
      case 0xd4: return ext(1);
      case 0xd5: return ext(2);
      case 0xd6: return ext(4);
      case 0xd7: return ext(8);
      case 0xd8: return ext(16);
      case 0xd9: return str(uint8());
      case 0xda: return str(uint16());
      case 0xdb: return str(uint32());
      case 0xdc: return array(uint16());
      case 0xdd: return array(uint32());
      case 0xde: return map(uint16());
      case 0xdf: return map(uint32());
      default: throw new TypeError("0xc1 is no MessagePack");
    }
  }

  const whole = value();
  if (at !== bytes.length) throw new RangeError("more than one value");
  return whole;
}
