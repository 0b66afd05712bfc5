// The wire protocol module under Node, with a socket that the test controls.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorReport } from "../src/wire/messages.ts";
import { connect as connectWithoutPackets } from "../src/wire/protocol.ts";
import type { Closed, Session, SessionEvents, SessionOptions } from "../src/wire.ts";
import { connect, decodeMessagePack, decodePacket, encodeMessagePack, encodePacket, pageOf } from "../src/wire.ts";

const bytes = (hex: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(hex.replaceAll(" ", ""), "hex"));
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const VALUES: readonly (readonly [hex: string, value: unknown])[] = [
  ["00", 0],
  ["7f", 127],
  ["ff", -1],
  ["e0", -32],
  ["c0", null],
  ["c2", false],
  ["c3", true],
  ["cc ff", 255],
  ["cd ffff", 65535],
  ["ce ffffffff", 4294967295],
  ["cf 001fffffffffffff", Number.MAX_SAFE_INTEGER],
  ["cf ffffffffffffffff", 2n ** 64n - 1n],
  ["d0 80", -128],
  ["d1 8000", -32768],
  ["d2 80000000", -2147483648],
  ["d3 ffe0000000000001", Number.MIN_SAFE_INTEGER],
  ["d3 8000000000000000", -(2n ** 63n)],
  ["ca 3fc00000", 1.5],
  ["cb 3ff8000000000000", 1.5],
  ["a0", ""],
  ["a2 c3a9", "é"],
  ["d9 01 61", "a"],
  ["da 0001 61", "a"],
  ["db 00000001 61", "a"],
  ["c4 01 ff", bytes("ff")],
  ["c5 0001 ff", bytes("ff")],
  ["c6 00000001 ff", bytes("ff")],
  ["90", []],
  ["92 01 a1 61", [1, "a"]],
  ["dc 0001 01", [1]],
  ["dd 00000001 01", [1]],
  ["80", {}],
  ["81 a1 61 01", { a: 1 }],
  ["de 0001 a1 61 01", { a: 1 }],
  ["df 00000001 a1 61 01", { a: 1 }],
  ["d4 01 ff", { type: 1, data: bytes("ff") }],
  ["d6 ff 00000000", { type: -1, data: bytes("00000000") }],
  ["c7 03 05 010203", { type: 5, data: bytes("010203") }],
];

for (const [hex, value] of VALUES) {
  test(`MessagePack ${hex}`, () => assert.deepEqual(decodeMessagePack(bytes(hex)), value));
  test(`MessagePack ${hex}, cut short or with more behind it`, () => {
    const whole = bytes(hex);
    if (whole.length > 1) assert.throws(() => decodeMessagePack(whole.subarray(0, -1)), RangeError);
    assert.throws(() => decodeMessagePack(bytes(`${hex} 00`)), RangeError);
  });
}

const LONG = "é".repeat(40);
for (const value of [
  0,
  127,
  128,
  255,
  256,
  65535,
  65536,
  2 ** 32 - 1,
  2 ** 32,
  Number.MAX_SAFE_INTEGER,
  -1,
  -32,
  -33,
  -(2 ** 40),
  1.5,
  1e300,
  null,
  true,
  false,
  "",
  "é",
  LONG,
  [],
  [1, [2, "x"]],
  {},
  { a: 1, b: { c: [null] } },
]) {
  test(`MessagePack of ${JSON.stringify(value)} and back`, () => {
    assert.deepEqual(decodeMessagePack(encodeMessagePack(value)), value);
  });
}

test("an unsupported value is an error, not a wrong byte", () => {
  for (const value of [Array(16).fill(0), Object.fromEntries(Array.from({ length: 16 }, (_, i) => [i, i]))]) {
    assert.throws(() => encodeMessagePack(value), RangeError);
  }
  for (const value of [1n, Symbol("x"), () => 0]) assert.throws(() => encodeMessagePack(value), TypeError);
});

test("a pushed packet decodes to the same values, while the connection is open", () => {
  const { session, socket } = begin();
  const sent: Uint8Array<ArrayBuffer>[] = [];
  socket.send = (data) => sent.push(data as Uint8Array<ArrayBuffer>);
  const packet = { track: 2, seq: 7, ptsUs: 33_333, meta: { codec: "jpeg" }, payload: bytes("ffd8ffd9") };
  assert.equal(session.push(packet), true);
  const [bytesSent] = sent;
  assert.ok(bytesSent);
  assert.deepEqual(decodePacket(bytesSent), { ...packet, flags: 1, command: null, step: 0 });
  assert.deepEqual(bytesSent, encodePacket(packet));
  socket.bufferedAmount = 5;
  assert.equal(session.bufferedAmount, 5);
  socket.end(1006);
  assert.equal(session.push(packet), false);
  assert.equal(sent.length, 1);
});

test("a session without a decoder leaves packets out, and decodes those after it got one", () => {
  const session = connectWithoutPackets({ url: "ws://host/ws", WebSocket: FakeSocket as unknown as typeof WebSocket });
  const socket = FakeSocket.last;
  const told: string[] = [];
  for (const type of ["frame", "error"] as const) session.addEventListener(type, () => told.push(type));
  const packet = encodePacket({ track: 0, seq: 0, ptsUs: 0, payload: bytes("ff") }).buffer;
  socket.receive(packet);
  assert.deepEqual(told, []);
  session.decode = decodePacket;
  socket.receive(packet);
  assert.deepEqual(told, ["frame"]);
});

test("a map key is data, whatever it is called", () => {
  const map = decodeMessagePack(bytes("81 a9 5f5f70726f746f5f5f 01"));
  assert.deepEqual(Object.keys(map as object), ["__proto__"]);
  assert.equal(Object.getPrototypeOf(map), Object.prototype);
});

test("invalid MessagePack or UTF-8 is an error", () => {
  assert.throws(() => decodeMessagePack(bytes("c1")), TypeError);
  assert.throws(() => decodeMessagePack(bytes("a1 ff")), TypeError);
  assert.throws(() => decodeMessagePack(bytes("")), RangeError);
  assert.throws(() => decodeMessagePack(bytes("dd ffffffff")), RangeError);
});

test("a packet's payload is a view of the message", () => {
  const message = bytes("98 00 07 ce 000f4240 01 03 05 81 a1 78 01 c6 00000003 010203");
  const { payload, ...head } = decodePacket(message);
  assert.deepEqual(head, { track: 0, seq: 7, ptsUs: 1_000_000, flags: 1, command: 3, step: 5, meta: { x: 1 } });
  assert.equal(payload.buffer, message.buffer);
  assert.deepEqual([...payload], [1, 2, 3]);
});

test("an invalid packet is an error", () => {
  for (const hex of ["01", "90", "98 00 00 00 00 c0 00 80 a1 61", "98 a1 61 00 00 00 c0 00 80 c4 00"]) {
    assert.throws(() => decodePacket(bytes(hex)), TypeError);
  }
});

class FakeSocket extends EventTarget {
  static last: FakeSocket;
  readyState = 1;
  bufferedAmount = 0;
  binaryType: string | undefined;
  sent: unknown[] = [];
  closed: number | undefined;
  url: string;
  protocols: string[];
  constructor(url: string, protocols: string[]) {
    super();
    this.url = url;
    this.protocols = protocols;
    FakeSocket.last = this;
  }
  send(data: string | Uint8Array): void {
    this.sent.push(JSON.parse(data as string));
  }
  close(code: number): void {
    this.closed = code;
  }
  receive(data: string | ArrayBuffer): void {
    this.dispatchEvent(Object.assign(new Event("message"), { data }));
  }
  say(type: string, data: unknown, more: { id?: number; n?: number } = {}): void {
    this.receive(JSON.stringify({ type, data, ...more }));
  }
  end(code: number): void {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
  /** WebKit: a policy forbids the socket. */
  forbid(): void {
    this.readyState = 3;
    this.dispatchEvent(new Event("error"));
  }
}

const EVENTS: readonly (keyof SessionEvents)[] = [
  "queued",
  "admitted",
  "welcome",
  "track",
  "frame",
  "message",
  "sent",
  "error",
  "bye",
  "closed",
];

type Told = [name: string, detail: unknown][];

function begin(options: Partial<SessionOptions> = {}): { session: Session; socket: FakeSocket; told: Told } {
  const session = connect({ url: "ws://host/ws", WebSocket: FakeSocket as unknown as typeof WebSocket, ...options });
  const told: Told = [];
  for (const type of EVENTS) session.addEventListener(type, ({ detail }) => told.push([type, detail]));
  return { session, socket: FakeSocket.last, told };
}

test("a socket that only fails is closed, and one that also closes is closed once, with its code", async () => {
  const forbidden = begin();
  forbidden.socket.forbid();
  const failing = begin();
  failing.socket.forbid();
  failing.socket.end(1013);
  await new Promise((resolve) => setTimeout(resolve));
  const codes = ({ told }: { told: Told }) =>
    told.filter(([name]) => name === "closed").map(([, closed]) => (closed as { code: number }).code);
  assert.deepEqual([codes(forbidden), codes(failing)], [[1006], [1013]]);
});

test("the values of settings are those received, and those set since", async () => {
  const { session, socket } = begin();
  const told: unknown[] = [];
  session.addEventListener("state", ({ detail }) => told.push(detail));
  assert.deepEqual(session.state, {});
  socket.say("reactor.welcome", { name: "m", tracks: [], state: { x: 0, y: 1 } }, { n: 1 });
  const set = session.command("set_x", { x: 5 });
  socket.say("reactor.state", { x: 3, y: 2 }, { n: 2 }); // older than the set
  assert.deepEqual(session.state, { x: 3, y: 2 });
  socket.say("reactor.ack", { step: 1 }, { id: 1, n: 3 });
  await set;
  assert.deepEqual(session.state, { x: 5, y: 2 });
  socket.say("reactor.state", { x: 4 }, { n: 4 });
  socket.say("reactor.state", { x: 9 }, { n: 4 }); // said again
  const refused = session.command("set_y", { y: 9 });
  socket.say("reactor.error", { code: "busy", message: "" }, { id: 2, n: 5 });
  await assert.rejects(refused);
  for (const [id, type, data] of [
    [3, "set_volume", { volume: 1 }],
    [4, "set_y", { value: 1 }],
    [5, "y", { y: 1 }],
    [6, "set_", { "": 1 }],
  ] as const) {
    const done = session.command(type, data);
    socket.say("reactor.ack", { step: 1 }, { id, n: 3 + id });
    await done;
  }
  assert.deepEqual(session.state, { x: 4, y: 2 });
  assert.deepEqual(told, [{ x: 3, y: 2 }, { x: 4 }]);
  session.state.x = 99; // a copy
  assert.equal(session.state.x, 4);
});

test("the address has the given options and nothing else", () => {
  assert.equal(begin().socket.url, "ws://host/ws?video=jpeg&follow=1");
  assert.equal(
    begin({ video: ["raw", "jpeg"], role: "viewer", model: "a b", token: "t&u" }).socket.url,
    "ws://host/ws?video=raw%2Cjpeg&role=viewer&model=a+b&token=t%26u&follow=1",
  );
  assert.deepEqual(FakeSocket.last.protocols, ["reactor.v1"]);
  assert.equal(FakeSocket.last.binaryType, "arraybuffer");
});

test("each message of the server becomes an event, in order", () => {
  const { session, socket, told } = begin();
  socket.dispatchEvent(new Event("open"));
  const track = { index: 0, name: "main_video" };
  const welcome = { name: "m", tracks: [track] };
  socket.say("reactor.queued", { position: 1, total: 1 });
  socket.say("reactor.welcome", welcome, { n: 1 });
  assert.deepEqual(session.welcome, welcome);
  socket.say("reactor.track", { ...track, width: 4 });
  assert.deepEqual(session.tracks, [{ ...track, width: 4 }]);
  socket.say("progress", { at: 1 }, { n: 3 });
  socket.receive(bytes("98 00 00 00 01 c0 00 80 c4 00").buffer);
  socket.say("reactor.unheard_of", {});
  socket.say("reactor.error", { code: "protocol_error", message: "what" });
  socket.say("reactor.bye", { reason: "done", message: "bye" });
  socket.end(1001);
  const frame = { track: 0, seq: 0, ptsUs: 0, flags: 1, command: null, step: 0, meta: {}, payload: new Uint8Array() };
  assert.deepEqual(told, [
    ["queued", { position: 1, total: 1 }],
    ["welcome", welcome],
    ["track", { ...track, width: 4 }],
    ["message", { type: "progress", data: { at: 1 }, n: 3 }],
    ["frame", frame],
    ["error", { code: "protocol_error", message: "what" }],
    ["bye", { reason: "done", message: "bye" }],
    ["closed", { code: 1001, reason: "done", message: "bye", opened: true, welcomed: true }],
  ]);
});

test("a command is answered once, by ack or by error", async () => {
  const { session, socket } = begin();
  const first = session.command("set_x", { x: 1 });
  const second = session.command("reset");
  assert.deepEqual(socket.sent, [
    { type: "set_x", data: { x: 1 }, id: 1 },
    { type: "reset", data: {}, id: 2 },
  ]);
  socket.say("reactor.ack", { step: 4, reply: "r" }, { id: 2 });
  socket.say("reactor.error", { code: "invalid_command", message: "at $.x" }, { id: 1 });
  assert.deepEqual(await second, { id: 2, step: 4, reply: "r" });
  await assert.rejects(first, { name: "CommandError", code: "invalid_command", message: "at $.x", id: 1 });
});

test("the time that a socket takes to send a command is part of its latency", () => {
  const { session, socket } = begin();
  const sentBefore: number[] = [];
  session.addEventListener("sent", () => sentBefore.push(socket.sent.length));
  session.command("reset").catch(() => {});
  assert.deepEqual([sentBefore, socket.sent.length], [[0], 1]);
});

test("commands without an answer at the end, or given after it, reject as closed", async () => {
  const { session, socket, told } = begin();
  const waiting = session.command("reset");
  socket.end(1006);
  await assert.rejects(waiting, { code: "closed" });
  await assert.rejects(session.command("reset"), { code: "closed" });
  session.feedback(0, 1, 0);
  assert.equal(socket.sent.length, 1);
  assert.deepEqual(told.at(-1), ["closed", { code: 1006, reason: null, message: "", opened: false, welcomed: false }]);
});

test("feedback and keyframe are the runtime's own messages, without an id", () => {
  const { session, socket } = begin();
  session.feedback(1, 9, 250);
  session.keyframe(0);
  session.close();
  assert.deepEqual(socket.sent, [
    { type: "reactor.feedback", data: { track: 1, seq: 9, held_us: 250 } },
    { type: "reactor.keyframe", data: { track: 0 } },
  ]);
  assert.equal(socket.closed, 1000);
});

test("a session that is left before its socket is open ends at once, and the socket is closed when it opens", () => {
  const { session, socket, told } = begin();
  socket.readyState = 0;
  session.close();
  session.close();
  assert.equal(socket.closed, undefined);
  assert.deepEqual(told, [["closed", { code: 1000, reason: "client_left", message: "", opened: false, welcomed: false }]]);
  socket.readyState = 1;
  socket.dispatchEvent(new Event("open"));
  assert.equal(socket.closed, 1000);
});

test("an invalid message or packet is an error event, and the session goes on", async () => {
  const { socket, told } = begin();
  for (const data of ["{", "null", "[]", '{"type": 1}']) socket.receive(data);
  socket.receive(bytes("c1").buffer);
  socket.say("hello", {});
  await settled();
  assert.deepEqual(
    told.map(([type]) => type),
    ["error", "error", "error", "error", "error", "message"],
  );
  assert.ok(told.slice(0, 5).every(([, detail]) => (detail as ErrorReport).code === "protocol_error"));
});

const ADMITTED = { url: "wss://edge/r/10.0.0.7/20003/ws", ticket: "t1", session_id: "s", claim_within: 5 };

test("a gate assigns a replica, which gets the ticket and no credential of the gate", () => {
  const { session, socket: gate, told } = begin({ url: "wss://gate/ws", video: ["raw"], token: "mine", resume: "r", after: 3, model: "m" });
  assert.equal(gate.url, "wss://gate/ws?video=raw&model=m&token=mine&resume=r&after=3&follow=1");
  assert.equal(session.url, "wss://gate/ws");
  gate.dispatchEvent(new Event("open"));
  gate.say("reactor.queued", { position: 1, total: 1 });
  gate.say("reactor.admitted", ADMITTED);
  const replica = FakeSocket.last;
  assert.equal(replica.url, "wss://edge/r/10.0.0.7/20003/ws?video=raw&model=m&token=t1");
  assert.equal(gate.closed, 1000);
  gate.end(1000);
  replica.dispatchEvent(new Event("open"));
  replica.say("reactor.welcome", { name: "m", tracks: [] }, { n: 1 });
  session.command("reset").catch(() => {});
  assert.deepEqual([gate.sent.length, replica.sent.length], [0, 1]);
  assert.equal(session.url, ADMITTED.url);
  assert.equal(pageOf(session.url).href, "https://edge/r/10.0.0.7/20003/");
  assert.deepEqual(
    told.map(([name]) => name),
    ["queued", "admitted", "welcome", "sent"],
  );
  assert.deepEqual(told[1]?.[1], { url: ADMITTED.url });
  replica.end(1000);
  assert.equal((told.at(-1)?.[1] as Closed | undefined)?.message, "");
});

test("a replica that refuses the client ends the session with an explanation", () => {
  const { socket: gate, told } = begin();
  gate.dispatchEvent(new Event("open"));
  gate.say("reactor.admitted", ADMITTED);
  FakeSocket.last.end(1006);
  const message = "The replica that has a place for this page could not be reached, or refused it.";
  assert.deepEqual(told.at(-1)?.[1], { code: 1006, reason: null, message, opened: true, welcomed: false });
});

test("a client follows one assignment, by a gate, to a valid address", () => {
  const refused = (act: (socket: FakeSocket) => void): void => {
    const { socket, told } = begin();
    act(socket);
    assert.deepEqual(
      told.filter(([name]) => name === "error").map(([, detail]) => (detail as ErrorReport).code),
      ["protocol_error"],
    );
    assert.equal(FakeSocket.last.closed, 4000);
  };
  refused((gate) => {
    gate.say("reactor.admitted", ADMITTED);
    FakeSocket.last.say("reactor.admitted", ADMITTED);
  });
  refused((server) => {
    server.say("reactor.welcome", { tracks: [] });
    server.say("reactor.admitted", ADMITTED);
  });
  refused((gate) => gate.say("reactor.admitted", { ...ADMITTED, url: "nowhere" }));
});
