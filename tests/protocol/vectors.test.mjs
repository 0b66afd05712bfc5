// The packets of docs/protocol-vectors.json, decoded and encoded by the viewer page's own module.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodePacket, encodePacket } from "../../src/reactor_trio/page/protocol.js";

const { packets } = JSON.parse(readFileSync(new URL("../../docs/protocol-vectors.json", import.meta.url), "utf8"));
const bytes = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

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
