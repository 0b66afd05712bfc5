/** Encodes packets, the binary messages of the wire protocol, in MessagePack. Apart from the decoder, since few clients send packets. */
import type { Packet } from "./packet.ts";

export const KEYFRAME = 1;

/** A packet to send: what is left out has the default of `encodePacket`. */
export type OutgoingPacket = Pick<Packet, "track" | "seq" | "ptsUs"> & Partial<Omit<Packet, "payload">> & { readonly payload: Uint8Array };

/** Encodes a frame as one binary message; the inverse of `decodePacket`. */
export function encodePacket({
  track,
  seq,
  ptsUs,
  flags = KEYFRAME,
  command = null,
  step = 0,
  meta = {},
  payload,
}: OutgoingPacket): Uint8Array<ArrayBuffer> {
  const head = encodeMessagePack([track, seq, ptsUs, flags, command, step, meta]);
  const bytes = new Uint8Array(head.length + 5 + payload.length);
  bytes.set(head);
  bytes[0] = 0x98; // an array of 8: the payload follows as the eighth element
  bytes[head.length] = 0xc6;
  new DataView(bytes.buffer).setUint32(head.length + 1, payload.length);
  bytes.set(payload, head.length + 5);
  return bytes;
}

/** Encodes `value` as MessagePack: null, boolean, number, string, or an array or plain object of fewer than 16 entries. */
export function encodeMessagePack(value: unknown): Uint8Array<ArrayBuffer> {
  const bytes: number[] = [];
  const fixed = (head: number, size: number, write: (view: DataView) => void): void => {
    const view = new DataView(new ArrayBuffer(size));
    write(view);
    bytes.push(head, ...new Uint8Array(view.buffer));
  };
  const short = (head: number, length: number): void => {
    if (length > 15) throw new RangeError(`${length} entries are more than this encoder writes`);
    bytes.push(head | length);
  };

  function integer(number: number): void {
    if (number >= -32 && number < 0x80) bytes.push(number & 0xff);
    else if (number < 0) fixed(0xd3, 8, (view) => view.setBigInt64(0, BigInt(number)));
    else if (number < 0x100) bytes.push(0xcc, number);
    else if (number < 0x10000) fixed(0xcd, 2, (view) => view.setUint16(0, number));
    else if (number < 0x100000000) fixed(0xce, 4, (view) => view.setUint32(0, number));
    else fixed(0xcf, 8, (view) => view.setBigUint64(0, BigInt(number)));
  }

  function string(words: string): void {
    const utf8 = new TextEncoder().encode(words);
    if (utf8.length < 32) bytes.push(0xa0 | utf8.length);
    else fixed(0xdb, 4, (view) => view.setUint32(0, utf8.length));
    bytes.push(...utf8);
  }

  function write(item: unknown): void {
    if (item === null || item === undefined) bytes.push(0xc0);
    else if (typeof item === "boolean") bytes.push(item ? 0xc3 : 0xc2);
    else if (typeof item === "number" && Number.isSafeInteger(item)) integer(item);
    else if (typeof item === "number") fixed(0xcb, 8, (view) => view.setFloat64(0, item));
    else if (typeof item === "string") string(item);
    else if (Array.isArray(item)) {
      short(0x90, item.length);
      for (const part of item) write(part);
    } else if (typeof item === "object") {
      const entries = Object.entries(item);
      short(0x80, entries.length);
      for (const entry of entries) for (const part of entry) write(part);
    } else throw new TypeError(`no MessagePack for a ${typeof item}`);
  }

  write(value);
  return new Uint8Array(bytes);
}
