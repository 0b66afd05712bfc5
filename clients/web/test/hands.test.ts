// What hands do on the page: which key is meant, which keys a finger presses, and keys that the user chose.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyMap } from "../page/key-map.ts";
import { directions, nearest } from "../page/pad-places.ts";
import { eventSign, followPrintedKeys, keySign } from "../page/signs.ts";
import { SafeStorage } from "../page/storage.ts";
import { KeyLayout, wholeCrosses } from "../src/controls/keyboard.ts";
import { LookBinding } from "../src/controls/look.ts";
import { PointerBinding } from "../src/controls/pointer.ts";

const WASD = ["w", "a", "s", "d"];
const event = (key: string, code: string): { key: string; code: string } => ({ key, code });

test("a cross is whole or none", () => {
  assert.deepEqual(wholeCrosses([...WASD, "q", "up", "down", "left"]), [WASD]);
  assert.deepEqual(wholeCrosses(["up", "down", "left", "right", "i", "j", "k", "l"]).length, 2);
  assert.deepEqual(wholeCrosses(["w", "a", "s"]), []);
});

test("letters of a whole cross go by their place, and others by their print", () => {
  const layout = new KeyLayout([...WASD, "q", "e", "m", "up", "1", "space"]);
  const find = (key: string, code: string): string | undefined => layout.find(event(key, code));
  // A French keyboard: the four keys at W, A, S, D say Z, Q, S, D; A lies at Q, and M beside L.
  assert.deepEqual([find("z", "KeyW"), find("q", "KeyA"), find("s", "KeyS"), find("d", "KeyD")], WASD);
  assert.deepEqual([find("a", "KeyQ"), find("w", "KeyZ"), find("m", "Semicolon"), find("&", "Digit1")], ["q", undefined, "m", "1"]);
  assert.deepEqual([find("W", "KeyW"), find("ц", "KeyW"), find("у", "KeyE"), find(" ", "Space")], ["w", "w", "e", "space"]);
  assert.deepEqual([find("ArrowUp", "ArrowUp"), find("ArrowUp", "Numpad8"), find("x", "KeyX")], ["up", "up", undefined]);
  assert.deepEqual([find("a", ""), find("w", "Unidentified")], ["a", "w"]); // a keyboard on a screen
});

test("letters that form no cross go by their print", () => {
  const layout = new KeyLayout(["w", "a", "s"]);
  assert.deepEqual([layout.find(event("w", "KeyZ")), layout.find(event("z", "KeyW")), layout.find(event("a", "KeyQ"))], ["w", "w", "a"]);
});

test("a key that the user gave has no other place", () => {
  const layout = new KeyLayout(
    [...WASD, "e"],
    new Map([
      ["KeyT", "w"],
      ["KeyX", "e"],
    ]),
  );
  const find = (key: string, code: string): string | undefined => layout.find(event(key, code));
  assert.deepEqual([find("t", "KeyT"), find("w", "KeyW"), find("x", "KeyX"), find("e", "KeyE")], ["w", undefined, "e", undefined]);
  assert.deepEqual([find("a", "KeyA"), find("w", "")], ["a", undefined]);
});

/** A storage in memory, and what it holds. */
function storage(...entries: [string, string][]): { stored: Map<string, string>; safe: SafeStorage } {
  const stored = new Map(entries);
  const safe = new SafeStorage(() => ({
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  }));
  return { stored, safe };
}

test("another key for a command is kept by the model's name, until the reset", () => {
  const { stored, safe } = storage();
  const map = new KeyMap(["space", "w"], "maze", safe);
  assert.ok(map.give("space", event("f", "KeyF")));
  assert.deepEqual([...stored], [["keys:maze", '{"space":["KeyF","F"]}']]);
  const again = new KeyMap(["space", "w"], "maze", safe);
  assert.deepEqual([again.changed, again.sign("space"), again.sign("w")], [true, "F", undefined]);
  assert.deepEqual([again.layout.find(event("f", "KeyF")), again.layout.find(event(" ", "Space"))], ["space", undefined]);
  assert.equal(new KeyMap(["space", "w"], "hills", safe).changed, false);
  again.reset();
  assert.deepEqual([[...stored], again.changed, again.layout.find(event(" ", "Space"))], [[], false, "space"]);
});

test("two commands change keys, and a key given back is the model's own", () => {
  const map = new KeyMap([...WASD, "space"], "maze", storage().safe);
  assert.ok(map.give("w", event(" ", "Space")));
  assert.deepEqual([map.sign("w"), map.sign("space")], ["Space", "W"]);
  assert.deepEqual([map.layout.find(event(" ", "Space")), map.layout.find(event("w", "KeyW"))], ["w", "space"]);
  assert.ok(map.give("w", event("w", "KeyW")));
  assert.deepEqual([map.changed, map.layout.find(event(" ", "Space"))], [false, "space"]);
});

test("a key of another command is refused if that would be left without one", () => {
  const map = new KeyMap(["w", "backspace"], "maze", storage().safe);
  assert.equal(map.give("backspace", event("w", "KeyW")), false);
  assert.equal(map.changed, false);
  assert.ok(map.give("backspace", event("b", "KeyB")));
  assert.ok(map.give("backspace", event("w", "KeyW"))); // its key is known now
  assert.deepEqual([map.sign("backspace"), map.sign("w")], ["W", "B"]);
});

test("what is kept may be anything", () => {
  for (const text of ["", "null", "[1]", '{"w":"KeyT"}', '{"w":["KeyT"]}', '{"x":["KeyT","T"]}', '{"w":[1,2]}', "{"]) {
    assert.equal(new KeyMap(["w"], "maze", storage(["keys:maze", text]).safe).changed, false, text);
  }
  const twice = new KeyMap(["w", "a"], "maze", storage(["keys:maze", '{"w":["KeyT","T"],"a":["KeyT","T"]}']).safe);
  assert.deepEqual([twice.sign("w"), twice.sign("a")], ["T", undefined]);
});

test("signs of keys", () => {
  assert.deepEqual([keySign("up"), keySign("w"), keySign("page_up", "Page up"), keySign("space")], ["↑", "W", "Page up", "Space"]);
  assert.deepEqual(
    [eventSign(event(" ", "Space")), eventSign(event("ArrowLeft", "ArrowLeft")), eventSign(event("ö", "Semicolon"))],
    ["Space", "←", "Ö"],
  );
});

test("a finger on a cross presses one key, or two between them, or none", () => {
  const [up, left, down, right] = [0, 1, 2, 3];
  assert.deepEqual([directions(0, -0.7), directions(-0.7, 0), directions(0, 0.7), directions(0.7, 0)], [[up], [left], [down], [right]]);
  assert.deepEqual(
    [directions(0.5, -0.5), directions(-0.5, 0.5)],
    [
      [up, right],
      [down, left],
    ],
  );
  assert.deepEqual([directions(0.3, -0.7), directions(0.4, -0.7)], [[up], [up, right]]);
  assert.deepEqual([directions(0, 0), directions(0.1, 0.1)], [[], []]);
  assert.deepEqual([directions(0, -1.9), directions(0, -2.1), directions(3, 0)], [[up], [], []]); // a thumb may slip off, but not far
});

test("a finger on round buttons presses the nearest within reach", () => {
  const boxes = [0, 56, 112].map((left) => ({ left, top: 0, width: 48, height: 48 }));
  assert.deepEqual([nearest(boxes, 24, 24), nearest(boxes, 51, 24), nearest(boxes, 55, 24)], [0, 0, 1]);
  assert.deepEqual([nearest(boxes, 24, 59), nearest(boxes, 24, 61), nearest([], 0, 0)], [0, null, null]);
});

/** A canvas of 100 by 100 on a page of 200 by 100, for the bindings of the pointer. */
function canvas(t: { after(end: () => void): void }): HTMLCanvasElement {
  const before = Object.getOwnPropertyDescriptors(globalThis);
  const define = (name: "document" | "getComputedStyle", value: unknown): void => {
    Object.defineProperty(globalThis, name, { configurable: true, value });
    t.after(() => (before[name] ? Object.defineProperty(globalThis, name, before[name]) : Reflect.deleteProperty(globalThis, name)));
  };
  define("document", Object.assign(new EventTarget(), { pointerLockElement: null }));
  define("getComputedStyle", () => ({ objectFit: "contain" }));
  const box = { left: 0, top: 0, width: 100, height: 100 };
  const made = Object.assign(new EventTarget(), {
    width: 100,
    height: 100,
    getBoundingClientRect: () => box,
    setPointerCapture: () => {},
    getRootNode: () => document,
  });
  return made as unknown as HTMLCanvasElement;
}
const finger = (type: string, pointerId: number, clientX: number, isPrimary = false): Event =>
  Object.assign(new Event(type), { pointerId, pointerType: "touch", isPrimary, button: 0, clientX, clientY: 50 });

test("a finger on the picture points and looks although another finger, on a pad, is the primary one", async (t) => {
  const picture = canvas(t);
  const sent: unknown[] = [];
  const send = async (name: string, data: unknown): Promise<void> => void sent.push([name, data]);
  const pointing = new PointerBinding({ down: { name: "pointer_down", description: "" } }, send, picture);
  const nothing = { locked: () => {}, refused: () => {} };
  const looking = new LookBinding({ name: "pointer_look", description: "", limits: { dx: [-9, 9], dy: [-9, 9] } }, send, picture, nothing);
  picture.dispatchEvent(finger("pointerdown", 7, 20));
  picture.dispatchEvent(finger("pointerdown", 8, 60)); // a second one on the picture does nothing
  picture.dispatchEvent(finger("pointermove", 8, 90));
  picture.dispatchEvent(finger("pointermove", 7, 50));
  await new Promise(setImmediate);
  assert.deepEqual(sent, [
    ["pointer_down", { x: 0.2, y: 0.5 }],
    ["pointer_look", { dx: 0.3, dy: 0 }],
  ]);
  pointing.close();
  looking.close();
});

test("without `pointer_down`, the first of several fingers has the position until it lifts, and a mouse has it while no finger is down", async (t) => {
  const picture = canvas(t);
  const sent: unknown[] = [];
  const send = async (_: string, { x }: { readonly [argument: string]: unknown }): Promise<void> => void sent.push(x);
  const pointing = new PointerBinding({ move: { name: "pointer_move", description: "" } }, send, picture);
  const hover = (clientX: number): Event => Object.assign(finger("pointermove", 1, clientX), { pointerType: "mouse" });
  const gives = async (...events: Event[]): Promise<unknown[]> => {
    for (const event of events) {
      picture.dispatchEvent(event);
      await new Promise(setImmediate);
    }
    return sent.splice(0);
  };
  assert.deepEqual(await gives(hover(10)), [0.1]);
  const both = [finger("pointermove", 7, 30), finger("pointermove", 8, 70), hover(11), finger("pointermove", 7, 40)];
  assert.deepEqual(
    await gives(finger("pointerdown", 7, 20), finger("pointerdown", 8, 60), finger("pointerdown", 9, 80), ...both),
    [0.3, 0.4],
  );
  // The next one has it then.
  const rest = [finger("pointermove", 9, 81), hover(12), finger("pointermove", 8, 71), finger("pointermove", 9, 82)];
  assert.deepEqual(await gives(finger("pointerup", 7, 40), ...rest), [0.71]);
  assert.deepEqual(await gives(finger("pointercancel", 8, 71), hover(13), finger("pointermove", 9, 83)), [0.83]);
  assert.deepEqual(await gives(finger("pointerup", 9, 83), hover(14)), [0.14]);
  pointing.close();
});

test("without `pointer_down`, of two fingers that come from beside the picture the first has the position", async (t) => {
  const picture = canvas(t);
  const sent: unknown[] = [];
  const send = async (_: string, { x }: { readonly [argument: string]: unknown }): Promise<void> => void sent.push(x);
  const pointing = new PointerBinding({ move: { name: "pointer_move", description: "" } }, send, picture);
  for (const event of [
    finger("pointerdown", 7, 120),
    finger("pointerdown", 8, 140),
    finger("pointermove", 7, 90),
    finger("pointermove", 8, 95),
  ])
    picture.dispatchEvent(event);
  await new Promise(setImmediate);
  assert.deepEqual(sent, [0.9]);
  pointing.close();
});

/** A keyboard as Chromium describes it. It can be exchanged. */
class Keyboards extends EventTarget {
  keys: Map<string, string> | null;
  constructor(keys: Map<string, string> | null) {
    super();
    this.keys = keys;
  }
  async getLayoutMap(): Promise<Map<string, string>> {
    if (this.keys === null) throw new DOMException("not in this frame", "SecurityError");
    return this.keys;
  }
  exchange(keys: Map<string, string>): void {
    this.keys = keys;
    this.dispatchEvent(new Event("layoutchange"));
  }
}

/** `navigator` with this keyboard during a test. */
function plug(t: { after(end: () => void): void }, keyboard: unknown): void {
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator") ?? {};
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { keyboard } });
  t.after(() => Object.defineProperty(globalThis, "navigator", before));
}

const FRENCH = new Map([
  ["KeyW", "z"],
  ["KeyA", "q"],
  ["KeyS", "s"],
  ["KeyD", "d"],
  ["KeyQ", "a"],
  ["Minus", ")"],
]);

test("keys that go by their place have the signs of the user's keyboard, also after a change of its layout", async (t) => {
  const keyboards = new Keyboards(FRENCH);
  plug(t, keyboards);
  const map = new KeyMap([...WASD, "q", "space"], "maze", storage().safe);
  const signs = (): (string | undefined)[] => [...WASD, "q", "space"].map((key) => map.sign(key));
  const stop = new AbortController();
  let calls = 0;
  const read = followPrintedKeys((keys) => {
    calls += 1;
    map.printed = keys;
  }, stop.signal);
  assert.deepEqual(signs(), ["W", "A", "S", "D", undefined, undefined]);
  await read;
  assert.deepEqual(signs(), ["Z", "Q", "S", "D", undefined, undefined]); // q goes by its print
  assert.ok(map.give("space", event("ß", "Minus")));
  assert.equal(map.sign("space"), ")"); // the keyboard of now, not of then
  assert.ok(map.give("w", event("q", "KeyA"))); // two places change
  assert.deepEqual([map.sign("w"), map.sign("a")], ["Q", "Z"]);
  keyboards.exchange(new Map([["KeyA", "ф"]]));
  await new Promise(setImmediate);
  assert.deepEqual([map.sign("w"), map.sign("a"), map.sign("s"), map.sign("space"), calls], ["Ф", "W", "S", "ß", 2]);
  stop.abort();
  keyboards.exchange(FRENCH);
  await new Promise(setImmediate);
  assert.equal(calls, 2);
});

test("where the browser does not say what is printed, keys have the signs of a US keyboard", async (t) => {
  for (const keyboard of [undefined, new EventTarget(), new Keyboards(null)]) {
    plug(t, keyboard);
    await followPrintedKeys(() => assert.fail("nothing is known"), new AbortController().signal);
  }
});
