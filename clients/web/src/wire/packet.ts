/** Decodes the binary messages of the wire protocol: packets, in MessagePack. `packet-encoder.ts` is the inverse. */

/** What MessagePack decodes to; a map's keys become strings. */
export type MessagePackValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array<ArrayBuffer>
  | MessagePackValue[]
  | { [key: string]: MessagePackValue }
  | { type: number; data: Uint8Array<ArrayBuffer> };

/** One frame of one track. `payload` is a view of the message, valid as long as it is referenced. */
export interface Packet {
  readonly track: number;
  readonly seq: number;
  /** Presentation time in microseconds since the session began. */
  readonly ptsUs: number;
  /** Bit 0 (`KEYFRAME` of `packet-encoder.ts`): the payload can be decoded without any packet before it. */
  readonly flags: number;
  /** The controlling client's newest command that was applied before the model made the frame. */
  readonly command: number | null;
  readonly step: number;
  readonly meta: { readonly [key: string]: unknown };
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Decodes the frame in one binary message; throws if it is not a packet. */
export function decodePacket(bytes: Uint8Array<ArrayBuffer>): Packet {
  const fields = decodeMessagePack(bytes);
  if (!Array.isArray(fields) || fields.length < 8) throw new TypeError("expected an array of 8");
  const [track, seq, ptsUs, flags, command, step, meta, payload] = fields;
  if (!(payload instanceof Uint8Array)) throw new TypeError("the payload is not binary");
  if (![track, seq, ptsUs, flags, step].every(Number.isSafeInteger)) throw new TypeError("a number is not an integer");
  return { track, seq, ptsUs, flags, command, step, meta, payload } as Packet;
}

const text = new TextDecoder("utf-8", { fatal: true });

/**
 * Decodes the one MessagePack value in `bytes`; throws if it is truncated or more bytes follow. Binary values are views of
 * `bytes`. Integers beyond 2^53 become BigInt, extensions become {type, data}.
 */
export function decodeMessagePack(bytes: Uint8Array<ArrayBuffer>): MessagePackValue {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  function take(length: number): number {
    if (at + length > bytes.length) throw new RangeError("cut short");
    at += length;
    return at - length;
  }
  const uint8 = (): number => view.getUint8(take(1));
  const uint16 = (): number => view.getUint16(take(2));
  const uint32 = (): number => view.getUint32(take(4));
  const exact = (big: bigint): number | bigint => (Number.isSafeInteger(Number(big)) ? Number(big) : big);
  const bin = (length: number): Uint8Array<ArrayBuffer> => bytes.subarray(take(length), at);
  const str = (length: number): string => text.decode(bin(length));
  const ext = (length: number): MessagePackValue => ({ type: view.getInt8(take(1)), data: bin(length) });

  function array(length: number): MessagePackValue[] {
    const items: MessagePackValue[] = [];
    for (let i = 0; i < length; i++) items.push(value());
    return items;
  }

  function map(length: number): MessagePackValue {
    const entries: [unknown, MessagePackValue][] = [];
    for (let i = 0; i < length; i++) entries.push([value(), value()]);
    return Object.fromEntries(entries as [string, MessagePackValue][]); // defines keys such as __proto__ instead of assigning them
  }

  function value(): MessagePackValue {
    const head = uint8();
    if (head < 0x80) return head;
    if (head < 0x90) return map(head & 0x0f);
    if (head < 0xa0) return array(head & 0x0f);
    if (head < 0xc0) return str(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return bin(uint8());
      case 0xc5:
        return bin(uint16());
      case 0xc6:
        return bin(uint32());
      case 0xc7:
        return ext(uint8());
      case 0xc8:
        return ext(uint16());
      case 0xc9:
        return ext(uint32());
      case 0xca:
        return view.getFloat32(take(4));
      case 0xcb:
        return view.getFloat64(take(8));
      case 0xcc:
        return uint8();
      case 0xcd:
        return uint16();
      case 0xce:
        return uint32();
      case 0xcf:
        return exact(view.getBigUint64(take(8)));
      case 0xd0:
        return view.getInt8(take(1));
      case 0xd1:
        return view.getInt16(take(2));
      case 0xd2:
        return view.getInt32(take(4));
      case 0xd3:
        return exact(view.getBigInt64(take(8)));
      case 0xd4:
        return ext(1);
      case 0xd5:
        return ext(2);
      case 0xd6:
        return ext(4);
      case 0xd7:
        return ext(8);
      case 0xd8:
        return ext(16);
      case 0xd9:
        return str(uint8());
      case 0xda:
        return str(uint16());
      case 0xdb:
        return str(uint32());
      case 0xdc:
        return array(uint16());
      case 0xdd:
        return array(uint32());
      case 0xde:
        return map(uint16());
      case 0xdf:
        return map(uint32());
      default:
        throw new TypeError("0xc1 is no MessagePack");
    }
  }

  const whole = value();
  if (at !== bytes.length) throw new RangeError("more than one value");
  return whole;
}
