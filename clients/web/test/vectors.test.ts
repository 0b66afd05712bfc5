// The packets of docs/protocol-vectors.json, decoded and encoded by the wire module.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodePacket, encodePacket, type Packet } from "../src/wire.ts";

/** A packet's fields as the file names them; the payload in hex. */
type Fields = Omit<Packet, "ptsUs" | "payload"> & { readonly pts_us: number; readonly payload: string };
interface Vector {
  readonly name: string;
  readonly packet: Fields;
  readonly hex: string;
}

const FILE = new URL("../../../docs/protocol-vectors.json", import.meta.url);
const { packets } = JSON.parse(readFileSync(FILE, "utf8")) as { packets: Record<"exact" | "accepted" | "refused", Vector[]> };
const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, "hex"));

for (const { name, packet, hex } of [...packets.exact, ...packets.accepted]) {
  test(name, () => {
    const { ptsUs, payload, ...head } = decodePacket(bytes(hex));
    assert.deepEqual({ ...head, pts_us: ptsUs, payload: Buffer.from(payload).toString("hex") }, packet);
  });
}

for (const { name, packet, hex } of packets.exact) {
  test(`${name}, encoded`, () => {
    const { pts_us: ptsUs, payload, ...head } = packet;
    const encoded = encodePacket({ ...head, ptsUs, payload: bytes(payload) });
    assert.equal(Buffer.from(encoded).toString("hex"), hex);
  });
}

for (const { name, hex } of packets.refused) {
  test(`${name} is refused`, () => assert.throws(() => decodePacket(bytes(hex))));
}
