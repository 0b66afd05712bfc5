// The packets of docs/reference/protocol-vectors.json, decoded and encoded by the wire module.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { meaningOf, UploadRefused } from "../src/wire/errors.ts";
import { decodePacket, encodePacket, type Packet } from "../src/wire.ts";

/** A packet's fields as the file names them; the payload in hex. */
type Fields = Omit<Packet, "ptsUs" | "payload"> & { readonly pts_us: number; readonly payload: string };
interface Vector {
  readonly name: string;
  readonly packet: Fields;
  readonly hex: string;
}

const FILE = new URL("../../../docs/reference/protocol-vectors.json", import.meta.url);
const { packets, refusal_retries: retries } = JSON.parse(readFileSync(FILE, "utf8")) as {
  packets: Record<"exact" | "accepted" | "refused", Vector[]>;
  refusal_retries: Record<"later" | "credential", string[]>;
};
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

test("a refusal means what its code means, whatever its status, or what its status means if the code is none of ours", () => {
  for (const code of retries.later) assert.equal(meaningOf(code, 400), "busy", code);
  for (const code of retries.credential) assert.equal(meaningOf(code, 400), "token_wanted", code);
  assert.equal(meaningOf("wrong_model", 503), "wrong_model");
  for (const code of ["bad_request", "not_allowed", "internal", "disk_full"]) assert.equal(meaningOf(code, 400), "refused");
  assert.deepEqual([meaningOf("not_found", 404), meaningOf("too_many_files", 429)], ["refused", "refused"]);
  assert.deepEqual([meaningOf(null, 503), meaningOf("of_a_newer_server", 503), meaningOf(null, 401)], ["busy", "busy", "token_wanted"]);
  assert.deepEqual([meaningOf(null, 404), meaningOf(null, null)], ["wrong_model", "refused"]);
  assert.deepEqual([new UploadRefused("", 408, "request_timeout").retryable, new UploadRefused("", 413).retryable], [true, false]);
});
