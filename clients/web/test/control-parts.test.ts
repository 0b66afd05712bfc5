// The parts of gamepad, looking around, latency, share link and recorder that need no document.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { describeTime, extension, fileName } from "../page/file-names.ts";
import { describeCopied, viewerAddress } from "../page/share-link.ts";
import { DEAD_ZONE, isPressed, NEUTRAL, padName, readPad, stick } from "../src/controls/gamepad.ts";
import { LookBinding } from "../src/controls/look.ts";
import { PointerBinding } from "../src/controls/pointer.ts";
import { Press } from "../src/controls/press.ts";
import { readCommands } from "../src/controls/schema.ts";
import { bindCommands } from "../src/controls/session-controls.ts";
import type { LatencySnapshot } from "../src/figures/latency.ts";
import { Latency, PARTS, quantile } from "../src/figures/latency.ts";
import type { Movement } from "../src/input/coalesce.ts";
import { MovementSum } from "../src/input/coalesce.ts";
import { chooseType } from "../src/media/recorder.ts";
import type { CommandDescription, JsonSchema } from "../src/wire/messages.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const command = (name: string, properties: JsonSchema = {}, required: readonly string[] = []): CommandDescription => ({
  name,
  description: "what",
  schema: { properties, required },
});
const number = { type: "number" };
const boolean = { type: "boolean" };

test("gamepad commands are recognised by their names and arguments", () => {
  const { pad, actions } = readCommands([
    command("gamepad_a"),
    command("gamepad_left", { down: boolean }, ["down"]),
    command("gamepad_rt", { value: { ...number, minimum: 0, maximum: 1 } }, ["value"]),
    command("gamepad_axes", { left_y: number, rt: number, left_x: number, extra: { ...number, default: 1 } }, ["left_x", "left_y"]),
    command("gamepad_jump"),
    command("gamepad_b", { how: number }, ["how"]),
    command("gamepad_x", { down: boolean, value: number }, ["down", "value"]),
  ]);
  assert.deepEqual(pad, {
    buttons: [
      { name: "gamepad_a", description: "what", button: "a", mode: "plain" },
      { name: "gamepad_left", description: "what", button: "left", mode: "down" },
      { name: "gamepad_rt", description: "what", button: "rt", mode: "value" },
    ],
    axes: { name: "gamepad_axes", description: "what", fields: ["left_x", "left_y", "rt"] },
  });
  assert.deepEqual(
    actions.map(({ name }) => name),
    ["gamepad_jump", "gamepad_b", "gamepad_x"],
  );
  const others = [
    command("gamepad_axes", { left_x: { type: "string" } }),
    command("gamepad_axes", { left_x: number, z: number }, ["z"]),
    command("gamepad_axes"),
  ];
  for (const other of others) assert.deepEqual([readCommands([other]).pad.axes, readCommands([other]).actions.length], [null, 1]);
});

test("looking needs both distances and nothing else", () => {
  const { look, actions } = readCommands([
    command("pointer_look", { dx: { ...number, minimum: -1, maximum: 1 }, dy: number }, ["dx", "dy"]),
  ]);
  assert.deepEqual(look, { name: "pointer_look", description: "what", limits: { dx: [-1, 1], dy: [-Infinity, Infinity] } });
  assert.equal(actions.length, 0);
  for (const other of [command("pointer_look", { dx: number }), command("pointer_look", { dx: number, dy: number, z: number }, ["z"])]) {
    assert.deepEqual([readCommands([other]).look, readCommands([other]).actions.length], [null, 1]);
  }
});

/** A canvas in a shadow root, of 100 by 100 pixels; `locked` is what has the pointer. The browser gives it when `grant` is called. */
function shadowCanvas(t: TestContext) {
  const root: { pointerLockElement: EventTarget | null } = { pointerLockElement: null };
  const page = Object.assign(new EventTarget(), {
    /** The element around the shadow root, as a browser has it. */
    get pointerLockElement() {
      return root.pointerLockElement && page;
    },
    exitPointerLock: () => lock(null),
  });
  const lock = (element: EventTarget | null): void => {
    root.pointerLockElement = element;
    page.dispatchEvent(new Event("pointerlockchange"));
  };
  let grant = (): void => {};
  const captured: number[] = [];
  const canvas = Object.assign(new EventTarget(), {
    width: 100,
    height: 100,
    getRootNode: () => root,
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 100, height: 100 }),
    setPointerCapture: (id: number) => captured.push(id),
    requestPointerLock: () =>
      new Promise<void>((resolve) => {
        grant = () => {
          lock(canvas);
          resolve();
        };
      }),
  });
  Object.assign(globalThis, { document: page, getComputedStyle: () => ({ objectFit: "contain" }) });
  t.after(() => ["document", "getComputedStyle"].forEach((name) => Reflect.deleteProperty(globalThis, name)));
  const mouse = (type: string, more: object = {}): void => {
    const event = Object.assign(new Event(type), { pointerType: "mouse", pointerId: 1, button: 0, clientX: 20, clientY: 20 }, more);
    canvas.dispatchEvent(event);
  };
  const sent: [name: string, args: unknown][] = [];
  const send = async (name: string, args?: object): Promise<unknown> => sent.push([name, args]);
  return { canvas: canvas as unknown as HTMLCanvasElement, root, grant: () => grant(), mouse, sent, send, captured };
}

const LOOK = readCommands([command("pointer_look", { dx: number, dy: number }, ["dx", "dy"])]).look;

test("a click locks the mouse to a canvas in a shadow root, and its movement is sent until the binding is closed", async (t) => {
  const { canvas, root, grant, mouse, sent, send, captured } = shadowCanvas(t);
  const told: unknown[] = [];
  const look = new LookBinding(LOOK, send, canvas, {
    locked: (yes) => told.push(yes),
    refused: (message) => told.push(message),
  });
  const xy = { x: number, y: number };
  const pointer = new PointerBinding(
    readCommands([command("pointer_down", xy, ["x", "y"]), command("pointer_move", xy, ["x", "y"])]).pointer,
    send,
    canvas,
  );
  mouse("click");
  grant();
  await settled();
  assert.deepEqual(told, [false, true, null]);
  mouse("pointermove", { movementX: 10, movementY: -5 });
  mouse("pointerdown");
  mouse("pointermove", { movementX: 0, movementY: 0 });
  assert.deepEqual(sent, [
    ["pointer_look", { dx: 0.1, dy: -0.05 }],
    ["pointer_down", { x: 0.5, y: 0.5 }], // a locked pointer has no position
  ]);
  assert.deepEqual(captured, []);
  look.close();
  pointer.close();
  assert.equal(root.pointerLockElement, null);
});

test("a lock that the browser grants after the end is given back", async (t) => {
  const { canvas, root, grant, mouse, send } = shadowCanvas(t);
  const told: unknown[] = [];
  const look = new LookBinding(LOOK, send, canvas, { locked: (yes) => told.push(yes), refused: (message) => told.push(message) });
  mouse("click");
  look.close();
  grant();
  await settled();
  assert.deepEqual([root.pointerLockElement, told], [null, [false]]);
});

test("a stick rests in a round dead zone and reaches the edge", () => {
  assert.deepEqual(
    [stick(0, 0), stick(DEAD_ZONE, 0), stick(0.08, -0.08), stick()],
    [
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ],
  );
  assert.deepEqual(
    [stick(1, 0), stick(0, -1), stick(-0.56, 0)],
    [
      [1, 0],
      [0, -1],
      [-0.5, 0],
    ],
  );
  assert.deepEqual(stick(1, 1), [0.707, 0.707]); // what is beyond the circle, is on it
  const [x] = stick(DEAD_ZONE + 0.01, 0);
  assert.equal(x, 0.011); // it begins at nothing
});

test("a gamepad is read in the order of the standard mapping", () => {
  const buttons = Array.from({ length: 17 }, (_, i) => ({ pressed: i === 0 || i === 14, value: i === 0 || i === 14 ? 1 : 0 }));
  buttons[6] = { pressed: false, value: 0.02 };
  buttons[7] = { pressed: true, value: 0.25 };
  const read = readPad({ buttons, axes: [0.05, 1, -1, 0] });
  assert.deepEqual(
    Object.entries(read.buttons).filter(([, value]) => value),
    [
      ["a", 1],
      ["rt", 0.25],
      ["left", 1],
    ],
  );
  assert.deepEqual(read.axes, { left_x: 0.05, left_y: 0.999, right_x: -1, right_y: 0, lt: 0, rt: 0.25 });
  assert.deepEqual(new Set([...Object.values(NEUTRAL.buttons), ...Object.values(NEUTRAL.axes)]), new Set([0]));
  assert.equal(readPad({ buttons: [{ pressed: true, value: 0 }], axes: [] }).buttons.a, 1); // some drivers know no way
});

test("a gamepad's name reads well in Chromium and in Firefox", () => {
  assert.equal(padName("Xbox Wireless Controller (STANDARD GAMEPAD Vendor: 045e Product: 0b13)"), "Xbox Wireless Controller");
  assert.equal(padName("054c-0ce6-DualSense (USB)"), "DualSense (USB)");
  assert.deepEqual([padName("Pad"), padName("(Vendor: 045e Product: 0b13)")], ["Pad", "(Vendor: 045e Product: 0b13)"]);
});

test("a trigger half pressed does not flutter", () => {
  const way = [0.3, 0.5, 0.51, 0.45, 0.34, 0.33, 0.4];
  let held = false;
  assert.deepEqual(
    way.map((value) => (held = isPressed(value, held))),
    [false, false, true, true, true, false, false],
  );
});

test("movement is summed while one piece is under way, and nothing of it is lost", async () => {
  const sent: { piece: Movement; answer: () => void }[] = [];
  const movement = new MovementSum((piece) => new Promise<void>((answer) => sent.push({ piece, answer })), {
    dx: [-1, 1],
    dy: [-Infinity, Infinity],
  });
  const answered = async () => {
    sent.at(-1)?.answer();
    await new Promise(setImmediate);
  };
  const pieces = () => sent.map(({ piece: { dx, dy } }) => [dx, dy]);
  movement.add({ dx: 0, dy: 0 });
  assert.deepEqual(pieces(), []);
  movement.add({ dx: 0.25, dy: 0.5 });
  movement.add({ dx: 0.5, dy: 1 });
  movement.add({ dx: 1, dy: 1 });
  movement.add({ dx: 0.75, dy: -0.5 });
  assert.deepEqual(pieces(), [[0.25, 0.5]]);
  await answered();
  assert.deepEqual(pieces(), [
    [0.25, 0.5],
    [1, 1.5],
  ]);
  await answered();
  assert.deepEqual(pieces().at(-1), [1, 0]);
  await answered();
  assert.deepEqual(pieces().at(-1), [0.25, 0]);
  await answered();
  assert.equal(sent.length, 4);
  movement.add({ dx: -3, dy: 0 });
  assert.deepEqual(pieces().at(-1), [-1, 0]);
});

test("an axis that a movement leaves out has not moved, and one piece is enough for the others", async () => {
  const sent: Movement[] = [];
  const limits = { dx: [-1, 1], dy: [-1, 1] } as const;
  const movement = new MovementSum(async (piece) => assert.ok(sent.push(piece) < 10), limits);
  movement.add({ dx: 0.25 });
  await new Promise(setImmediate);
  assert.deepEqual(sent, [{ dx: 0.25, dy: 0 }]);
});

const meta = (...timing: unknown[]) => ({ timing });

function measured(latency: Latency): LatencySnapshot {
  const snapshot = latency.snapshot();
  assert.ok(snapshot);
  return snapshot;
}

test("the time from a command to its picture, in its parts", () => {
  const latency = new Latency();
  assert.equal(latency.snapshot(), null);
  latency.received({ seq: 0 }, 990);
  latency.shown({ seq: 0, command: null, meta: meta(null, 5000, 0, 0) }, 995);
  latency.sent(1, 1000);
  latency.sent(2, 1010);
  latency.received({ seq: 1 }, 1090);
  latency.shown({ seq: 1, command: 2, meta: meta(8000, 40_000, 2500, 4500) }, 1100);
  const exact = (value: number) => ({ p50: value, p95: value });
  assert.deepEqual(latency.snapshot(), {
    count: 1,
    total: exact(90),
    wait: exact(8),
    step: exact(40),
    queue: exact(2.5),
    encode: exact(4.5),
    network: exact(25),
    decode: exact(10),
  });
  latency.received({ seq: 2 }, 1190); // made with the same command again
  latency.shown({ seq: 2, command: 2, meta: meta(8000, 40_000, 2500, 4500) }, 1200);
  assert.equal(measured(latency).count, 1);
  latency.sent(3, 2000);
  latency.received({ seq: 3 }, 2150); // never drawn
  latency.received({ seq: 4 }, 2180);
  latency.shown({ seq: 4, command: 3, meta: meta(0, 100_000, 10_000, 10_000) }, 2190);
  const { total, network, step, decode } = measured(latency);
  assert.deepEqual([total, step, network, decode], [{ p50: 140, p95: 185 }, { p50: 70, p95: 97 }, { p50: 42.5, p95: 58.25 }, exact(10)]);
});

test("incomplete measurements are not samples", () => {
  const latency = new Latency();
  const drawn = (seq: number, id: number, timing: { timing?: unknown } | null, { arrives = true } = {}) => {
    if (arrives) latency.received({ seq }, 0);
    latency.shown({ seq, command: id, meta: timing }, 10);
  };
  drawn(0, 7, meta(1, 1, 1, 1)); // no command of ours
  for (const [i, timing] of [
    null,
    {},
    meta(null, 1, 1, 1),
    meta(1, 2, 3),
    meta(1, 2, 3, "4"),
    meta(1, 2, 3, -4),
    { timing: 5 },
  ].entries()) {
    latency.sent(10 + i, 0);
    drawn(1 + i, 10 + i, timing);
  }
  latency.sent(20, 0);
  drawn(20, 20, meta(1, 1, 1, 1), { arrives: false });
  latency.sent(21, 0);
  latency.refused(21);
  drawn(21, 21, meta(1, 1, 1, 1));
  assert.equal(latency.snapshot(), null);
  latency.sent(22, 0);
  drawn(22, 22, meta(9000, 9000, 0, 0)); // more than the whole, by rounding or a slow clock: the network took nothing
  assert.deepEqual([measured(latency).count, measured(latency).network.p50], [1, 0]);
});

test("figures cover the last 120, and memory is bounded", () => {
  const latency = new Latency();
  for (let i = 0; i < 1000; i++) {
    latency.sent(i, 0);
    latency.received({ seq: i }, 0);
  }
  for (let i = 0; i < 1000; i++) latency.shown({ seq: i, command: i, meta: meta(0, 0, 0, 0) }, i);
  const { count, total } = measured(latency);
  assert.deepEqual([count, total.p50], [120, 939.5]);
  assert.deepEqual(Object.keys(measured(latency)), ["count", "total", ...PARTS]);
});

test("a quantile lies between its neighbours", () => {
  assert.deepEqual([quantile([7], 0.95), quantile([0, 10], 0.5), quantile([0, 1, 2, 3, 4], 0.95)], [7, 5, 3.8]);
});

test("a link for viewers is the page's own with role and token", () => {
  assert.equal(viewerAddress("https://host/demo/", "s3"), "https://host/demo/?role=viewer#token=s3");
  assert.equal(viewerAddress("http://h:1/?model=m&token=mine&role=control#x", "a&b"), "http://h:1/?model=m&role=viewer#token=a%26b");
  const replica = new URL("https://edge/r/10.0.0.7/20003/");
  assert.equal(viewerAddress("https://gate/?video=raw#x", "s3", replica), "https://edge/r/10.0.0.7/20003/?video=raw&role=viewer#token=s3");
  assert.match(describeCopied("http://127.0.0.1:8080/"), /this computer only/);
  assert.match(describeCopied("http://[::1]:8080/"), /this computer only/);
  assert.doesNotMatch(describeCopied("http://box.example/"), /this computer only/);
});

test("files are MP4 where the browser writes it, and named by model and time", () => {
  const chosen = (...known: string[]) => chooseType((type) => known.includes(type));
  assert.equal(chosen("video/webm", "video/mp4;codecs=avc1,opus", "video/webm;codecs=vp8,opus"), "video/mp4;codecs=avc1,opus");
  assert.equal(chosen("video/webm", "video/webm;codecs=vp8,opus"), "video/webm;codecs=vp8,opus");
  assert.equal(chosen(), null);
  const silent = (...known: string[]) => chooseType((type) => known.includes(type), false);
  assert.equal(silent("video/webm", "video/webm;codecs=vp8", "video/webm;codecs=vp8,opus"), "video/webm;codecs=vp8");
  assert.equal(silent("video/mp4;codecs=avc1,opus", "video/mp4;codecs=avc1"), "video/mp4;codecs=avc1");
  assert.deepEqual([extension("video/mp4;codecs=avc1,opus"), extension("video/webm")], ["mp4", "webm"]);
  assert.deepEqual([0, 7999, 754_000, 3_600_000].map(describeTime), ["0:00", "0:07", "12:34", "1:00:00"]);
  const date = new Date(2026, 0, 31, 4, 5, 9);
  assert.equal(fileName("crafter", "png", date), "crafter-20260131-040509.png");
  assert.equal(fileName("../a b/ü:*", "mp4", date), "a-b-ü-20260131-040509.mp4");
  assert.equal(fileName("/", "mp4", date), "reactor-20260131-040509.mp4");
});

test("a press is held by its sources, sends in its mode, and does not mind a refusal", async () => {
  const sent: [string, unknown][] = [];
  const send = async (name: string, data: object): Promise<void> => {
    sent.push([name, data]);
    throw new Error("refused");
  };
  const states: boolean[] = [];
  const held = new Press({ name: "run", mode: "down" }, send);
  held.changed = (yes) => states.push(yes);
  held.press("key");
  held.press("finger");
  held.release("key");
  held.release("key");
  assert.deepEqual([held.held, held.isHeldBy("finger"), states], [true, true, [true]]);
  held.releaseAll();
  assert.deepEqual(states, [true, false]);
  const plain = new Press({ name: "jump", mode: "plain" }, send);
  plain.press("key");
  plain.repeat(); // the one before has no answer yet
  await new Promise((resolve) => setImmediate(resolve));
  plain.repeat();
  plain.close();
  assert.equal(plain.held, false);
  const value = new Press({ name: "gas", mode: "value" }, send);
  value.press("pad", 0.5);
  value.press("pad", 0.5);
  value.release("pad");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(sent, [
    ["run", { down: true }],
    ["run", { down: false }],
    ["jump", {}],
    ["jump", {}],
    ["gas", { value: 0.5 }],
    ["gas", { value: 0 }],
  ]);
});

test("what is held is released when the bindings go while the session goes on, and not when the session is over", (t) => {
  const at = { x: { ...number }, y: { ...number } };
  const commands = [
    command("key_w", { down: boolean }, ["down"]),
    command("gamepad_a", { down: boolean }, ["down"]),
    command("pointer_down", at, ["x", "y"]),
    command("pointer_up", at, ["x", "y"]),
  ];
  const pad = { connected: true, buttons: [{ pressed: true, value: 1 }], axes: [] };
  const [page, document] = [new EventTarget(), Object.assign(new EventTarget(), { hidden: false })];
  const frames = { requestAnimationFrame: () => 1, cancelAnimationFrame: () => {} };
  const fakes = { window: page, document, HTMLElement: class {}, getComputedStyle: () => ({ objectFit: "fill" }), ...frames };
  Object.assign(globalThis, fakes);
  Object.assign(navigator, { getGamepads: () => [pad] });
  t.after(() => {
    for (const name of Object.keys(fakes)) Reflect.deleteProperty(globalThis, name);
    Reflect.deleteProperty(navigator, "getGamepads");
  });
  const sent: string[] = [];
  const send = async (name: string, data: object): Promise<void> => void sent.push(`${name} ${Object.values(data)}`);
  const canvas = Object.assign(new EventTarget(), {
    ...{ width: 100, height: 100, setPointerCapture: () => {}, getRootNode: () => document },
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 100, height: 100 }),
  });
  const hold = (): ReturnType<typeof bindCommands> => {
    sent.length = 0;
    const bound = bindCommands({ commands }, send, canvas as unknown as HTMLCanvasElement, "all");
    page.dispatchEvent(Object.assign(new Event("keydown", { cancelable: true }), { key: "w", code: "KeyW" }));
    const press = { button: 0, isPrimary: true, pointerId: 1, clientX: 20, clientY: 70 };
    canvas.dispatchEvent(Object.assign(new Event("pointerdown"), press));
    return bound;
  };
  const held = ["gamepad_a true", "key_w true", "pointer_down 0.2,0.7"];
  const bound = hold();
  assert.deepEqual(sent, held);
  bound.release();
  bound.close();
  assert.deepEqual(sent, [...held, "key_w false", "pointer_up 0.2,0.7", "gamepad_a false"]);
  hold().close();
  assert.deepEqual(sent, held);
});
