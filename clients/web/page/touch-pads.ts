/** Keys below or beside the picture for fingers: a cross of keys as one pad, other keys as buttons that say what they do. Loaded when they are shown. */
import type { Press } from "../src/controls.ts";
import { REPEAT, wholeCrosses } from "../src/controls.ts";
import { element } from "./dom.ts";
import { directions, MOST_ROUND, nearest } from "./pad-places.ts";
import { labelOf } from "./signs.ts";
import { PADS } from "./strings.ts";

/** A key of the model. */
export interface PadKey {
  readonly key: string;
  readonly sign: string;
  readonly description: string;
  readonly press: Press;
  /** Whether it is pressed again and again while it is held, as a key of a keyboard is. */
  readonly repeats: boolean;
}

export class TouchPads {
  /** The names of the keys that have a place. */
  readonly shown: ReadonlySet<string>;
  #root: HTMLElement;
  #pads: readonly Pad[];
  #stop = new AbortController();
  /** Where the panel lies on the picture, it takes the place of the pads. */
  #hidden = new ResizeObserver(() => this.#root.offsetParent === null && this.release());

  /** Lies in `stage` until `close`. */
  constructor(stage: HTMLElement, keys: readonly PadKey[]) {
    const left = new Map(keys.map((key) => [key.key, key]));
    const crosses = wholeCrosses(left.keys()).slice(0, 2); // one for each hand
    const pads = crosses.map((cross) => {
      const four = cross.flatMap((name) => left.get(name) ?? []);
      for (const name of cross) left.delete(name);
      return new CrossPad(four);
    });
    const others = [...left.values()]
      .sort((a, b) => Number(isMain(b)) - Number(isMain(a)))
      .slice(0, crosses.length > 1 ? MOST_ROUND / 2 : MOST_ROUND);
    this.shown = new Set([...crosses.flat(), ...others.map(({ key }) => key)]);
    const round = others.length ? new RoundPad(others) : null;
    this.#pads = [...pads, ...(round ? [round] : [])];
    const parts = [pads[0], round, pads[1]].map((pad) => pad?.element ?? null);
    this.#root = element("div", { id: "pads", role: "group", "aria-label": PADS.label }, ...parts);
    stage.append(this.#root);
    this.#hidden.observe(this.#root);
    const until = { signal: this.#stop.signal };
    window.addEventListener("blur", () => this.release(), until);
    document.addEventListener("visibilitychange", () => document.hidden && this.release(), until);
  }

  /** Releases all keys; a finger that stays presses again only when it was lifted. */
  release(): void {
    for (const pad of this.#pads) pad.release();
  }

  /** Releases all keys, and takes the pads away. */
  close(): void {
    this.#stop.abort();
    this.#hidden.disconnect();
    this.release();
    this.#root.remove();
  }
}

/** Whether it is the key of what is done most, which lies where the thumb does. */
const isMain = ({ key }: PadKey): boolean => key === "space" || key === "enter";

/** A group of keys. A finger that begins on it belongs to it, and presses what is under it until it is lifted. */
abstract class Pad {
  readonly element: HTMLElement;
  protected readonly keys: readonly { readonly key: PadKey; readonly button: HTMLButtonElement }[];
  #fingers = new Map<number, readonly PadKey[]>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(kind: string, label: string, keys: readonly PadKey[], words: (key: PadKey) => string) {
    this.keys = keys.map((key) => ({ key, button: padButton(key, words(key)) }));
    this.element = element("div", { class: `pad ${kind}`, role: "group", "aria-label": label }, ...this.keys.map(({ button }) => button));
    this.#listen(this.element);
  }

  /** The keys at a point of the window. */
  protected abstract at(x: number, y: number): readonly PadKey[];

  release(): void {
    for (const finger of [...this.#fingers.keys()]) this.#lift(finger);
  }

  #listen(pad: HTMLElement): void {
    pad.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault(); // the picture keeps the keyboard focus
      pad.setPointerCapture(event.pointerId);
      this.#lift(event.pointerId); // if the browser has not reported that it was lifted
      this.#fingers.set(event.pointerId, []);
      this.#move(event);
    });
    pad.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"] as const)
      pad.addEventListener(end, ({ pointerId }) => this.#lift(pointerId));
    pad.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  #move({ pointerId, clientX, clientY }: PointerEvent): void {
    if (this.#fingers.has(pointerId)) this.#press(pointerId, this.at(clientX, clientY));
  }

  #lift(finger: number): void {
    if (!this.#fingers.has(finger)) return;
    this.#press(finger, []);
    this.#fingers.delete(finger);
  }

  #press(finger: number, now: readonly PadKey[]): void {
    const before = this.#fingers.get(finger) ?? [];
    const source = `finger ${finger}`;
    const pressed = now.filter((key) => !before.includes(key));
    const released = before.filter((key) => !now.includes(key));
    if (pressed.length + released.length === 0) return;
    this.#fingers.set(finger, now);
    for (const { press } of released) press.release(source);
    for (const { press } of pressed) press.press(source);
    const held = new Set([...this.#fingers.values()].flat());
    for (const { key, button } of this.keys) button.classList.toggle("held", held.has(key));
    clearTimeout(this.#timer);
    const repeated = [...held].filter(({ repeats }) => repeats);
    if (repeated.length) this.#timer = setTimeout(() => this.#repeat(repeated), REPEAT.after);
  }

  #repeat(keys: readonly PadKey[]): void {
    for (const { press } of keys) press.repeat();
    this.#timer = setTimeout(() => this.#repeat(keys), REPEAT.every);
  }
}

/** Four keys as a cross; between two of them a finger presses both. */
class CrossPad extends Pad {
  constructor(keys: readonly PadKey[]) {
    const arrows = ["↑", "←", "↓", "→"];
    super("cross-pad", PADS.cross, keys, (key) => arrows[keys.indexOf(key)] ?? "");
  }

  protected at(x: number, y: number): readonly PadKey[] {
    const { left, top, width, height } = this.element.getBoundingClientRect();
    const places = directions((2 * (x - left)) / width - 1, (2 * (y - top)) / height - 1);
    return places.flatMap((place) => this.keys[place]?.key ?? []);
  }
}

class RoundPad extends Pad {
  constructor(keys: readonly PadKey[]) {
    super("round-pad", PADS.others, keys, ({ sign, description }) => description.replace(/\s*\(.*$/s, "") || sign);
  }

  protected at(x: number, y: number): readonly PadKey[] {
    const found = nearest(
      this.keys.map(({ button }) => button.getBoundingClientRect()),
      x,
      y,
    );
    return this.keys.flatMap(({ key }, i) => (i === found ? key : []));
  }
}

/** A button for one key. Fingers press it through its pad; a click without a pointer comes from a screen reader. */
function padButton(key: PadKey, words: string): HTMLButtonElement {
  const label = labelOf(key.description || key.sign, words);
  const button = element("button", { type: "button", tabindex: -1, "data-pad": key.key, "aria-label": label }, element("span", {}, words));
  button.addEventListener("click", ({ detail }) => {
    if (detail !== 0) return;
    key.press.press(button);
    key.press.release(button);
  });
  return button;
}
