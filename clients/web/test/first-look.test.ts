// What a visitor sees first: how well the pictures come and why, and a hint for the hand that the visitor has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ambient } from "../page/ambient.ts";
import { Figures } from "../page/figures.ts";
import { FiguresPanel } from "../page/figures-panel.ts";
import { hintFor } from "../page/hint.ts";
import { makeHint } from "../page/made-hint.ts";
import { Quality } from "../page/quality.ts";
import { readCommands } from "../src/controls/schema.ts";
import type { Client, Statistics } from "../src/index.ts";
import type { CommandDescription } from "../src/wire/messages.ts";

const none = { missing: 0, freezes: 0 };

test("the quality of pictures has a reason, and its beginning does not count", () => {
  const quality = new Quality();
  const looks = (n: number, fps: number | null, jitter: number | null, counts = none): unknown[] =>
    Array.from({ length: n }, () => Object.values(quality.look(fps, jitter, counts)));
  const all = (seen: unknown[], grade: string, why: string | null): void => {
    for (const each of seen) assert.deepEqual(each, [grade, why]);
  };
  all(looks(2, null, null), "none", null);
  all(looks(10, 30, 40, { missing: 2, freezes: 1 }), "good", null);
  all(looks(2, 30, 20, { missing: 2, freezes: 1 }), "good", null); // a grade stays for 3 s
  all(looks(1, 30, 20, { missing: 2, freezes: 1 }), "fair", "uneven");
  all(looks(11, 30, 1, { missing: 2, freezes: 1 }), "fair", "uneven");
  all(looks(12, 30, 40, { missing: 2, freezes: 1 }), "poor", "uneven");
  all(looks(12, 60, 11, { missing: 2, freezes: 1 }), "good", null); // nobody sees that
  all(looks(20, 60, 1, { missing: 3, freezes: 1 }), "poor", "missing");
  all(looks(12, 60, 1, { missing: 3, freezes: 1 }), "good", null);
  all(looks(1, 60, 1, { missing: 3, freezes: 2 }), "poor", "freezes");
  all(looks(1, null, null, { missing: 3, freezes: 2 }), "none", null);
  assert.deepEqual(quality.pause(), { grade: "paused", why: null });
  all(looks(2, 60, 1, { missing: 3, freezes: 3 }), "good", null); // the model was paused, so its pictures stood still
  all(looks(12, 60, 1, { missing: 3, freezes: 3 }), "good", null);
  all(looks(1, 60, 1, { missing: 4, freezes: 3 }), "poor", "missing");
});

test("a picture that is black, or not there yet, has no glow", (t) => {
  let data = new Uint8ClampedArray(8 * 6 * 4);
  const small = { drawImage() {}, getImageData: () => ({ data }) };
  Object.assign(globalThis, { document: { hidden: false, createElement: () => ({ getContext: () => small }) } });
  t.after(() => Reflect.deleteProperty(globalThis, "document"));
  const glow = new Map<string, string>();
  const hero = { style: { setProperty: (name: string, value: string) => glow.set(name, value) } } as unknown as HTMLElement;
  const ambient = new Ambient(hero, () => ({}) as HTMLCanvasElement);
  ambient.refresh(1000);
  assert.equal(glow.size, 0);
  data = data.map((_, i) => [10, 20, 200, 255][i % 4] as number);
  ambient.refresh(1300);
  assert.deepEqual([...new Set(glow.values())], ["rgb(10 20 200)"]);
});

test("figures that stay what they are leave the page as it is", (t) => {
  const written: string[] = [];
  class Fake {
    #text = "";
    readonly dataset = {};
    get textContent(): string {
      return this.#text;
    }
    set textContent(text: string) {
      this.#text = text;
      written.push(text);
    }
    querySelector(): Fake {
      return new Fake();
    }
    append(): void {}
    appendChild(child: Fake): Fake {
      return child;
    }
    replaceChildren(): void {}
    setAttribute(): void {}
  }
  const nodes = new Map<string, Fake>();
  const getElementById = (id: string): Fake => nodes.get(id) ?? (nodes.set(id, new Fake()).get(id) as Fake);
  Object.assign(globalThis, {
    HTMLElement: Fake,
    Element: Fake,
    document: { getElementById, querySelectorAll: () => [], createElement: () => new Fake() },
  });
  t.after(() => ["HTMLElement", "Element", "document"].forEach((name) => Reflect.deleteProperty(globalThis, name)));
  t.mock.timers.enable({ apis: ["setInterval"] });
  const main = { fps: 30, jitter: 1, missing: 0, skipped: 0, freezes: 0, frozen: 0 };
  const sound = { buffer: null, target: null, underruns: 0, lost: 0 };
  const statistics = () => ({ tracks: { main }, latency: null, sound, soundOffset: null, lead: null, stepsDown: 0 });
  const shown = { session: null, state: { status: "live" }, transport: { paused: false }, statistics };
  const figures = new Figures(shown as unknown as Client, ["main"]);
  const panel = new FiguresPanel();
  const look = (ms: number): void => {
    t.mock.timers.tick(ms);
    panel.show(statistics() as unknown as Statistics, ["main"], null);
  };
  look(250);
  assert.ok(written.includes("30 fps"));
  assert.ok(written.includes("30.0"));
  written.length = 0;
  look(1000);
  assert.deepEqual(written, []);
  main.fps = 29;
  look(250);
  assert.deepEqual(written, ["29 fps", "29.0"]);
  figures.close();
});

const command = (name: string, description: string, ...numbers: string[]): CommandDescription => ({
  name,
  description,
  schema: { type: "object", properties: Object.fromEntries(numbers.map((each) => [each, { type: "number" }])), required: numbers },
});
const walk = ["w", "a", "s", "d"].map((key, i) => command(`key_${key}`, ["Ahead", "Left", "Back", "Right"][i] as string));
const jump = command("key_space", "Jump");
const press = command("gamepad_a", "Jump");
const drag = command("pointer_move", "Draw", "x", "y");
const turn = command("pointer_look", "", "dx", "dy");

test("a hint is for the hand that the user has", () => {
  const keys = readCommands([...walk, jump]);
  const about = { hint: "W A S D to walk", hints: { gamepad: "The stick walks" } };
  assert.equal(hintFor("keyboard", about, keys), "W A S D to walk");
  assert.equal(hintFor("gamepad", about, keys), "The stick walks");
  assert.equal(hintFor("touch", about, keys), null, "a finger has no W");
  assert.equal(hintFor("touch", { hint: "Draw on the water", hints: {} }, readCommands([drag])), "Draw on the water");
  assert.equal(hintFor("touch", { hint: null, hints: { touch: "Draw" } }, keys), "Draw");
  assert.equal(hintFor("keyboard", undefined, keys), null);
});

/** The hint: its signs and their words. */
const hintOf = (...given: Parameters<typeof makeHint>): string =>
  makeHint(...given)
    .map((part) => (typeof part === "string" ? part : `${part.sign} ${part.what}`))
    .join(" · ");

test("a hint is made of what the model declares", () => {
  assert.equal(hintOf("keyboard", readCommands([...walk, jump])), "W Ahead · A Left · S Back · D Right");
  assert.equal(hintOf("keyboard", readCommands([jump, drag])), "Space Jump · Move Draw");
  assert.equal(hintOf("keyboard", readCommands([turn])), "Click look around");
  assert.equal(hintOf("touch", readCommands([...walk, jump, turn])), "↑ Ahead · ← Left · ↓ Back · → Right · Drag look around");
  assert.equal(hintOf("touch", readCommands([jump])), "Play with the buttons at the picture");
  assert.equal(hintOf("gamepad", readCommands([press, ...walk])), "A Jump");
  assert.equal(hintOf("touch", readCommands([])), "");
});
