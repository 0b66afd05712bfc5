/**
 * Binds presses to keys. A key presses at once, and repeats as the browser repeats it; when the page loses the keyboard, all held
 * keys are released. Focused fields keep the keys that they need.
 */
import type { Press } from "./press.ts";

/** What names a key in a keyboard event. */
export type KeyOfEvent = Pick<KeyboardEvent, "key" | "code">;

/** The key names of a keyboard event: the printed key first, then its place on a US keyboard. */
export function keyNames({ key, code }: KeyOfEvent): string[] {
  const printed = key === " " ? "space" : key.toLowerCase().replace(/^arrow/, "");
  const place = keyPlace(code);
  return place === undefined || place === printed ? [printed] : [printed, place];
}

/** The key name that a US keyboard has at this place. */
const keyPlace = (code: string): string | undefined => /^(?:Key|Digit|Numpad|Arrow)([A-Z0-9][a-z]*)$/.exec(code)?.[1]?.toLowerCase();

/** Four keys that lie as a cross. */
export type KeyCross = readonly [up: string, left: string, down: string, right: string];

const CROSSES: readonly KeyCross[] = [
  ["w", "a", "s", "d"],
  ["up", "left", "down", "right"],
  ["i", "j", "k", "l"],
];

/** The crosses of which all four keys are among `keys`. */
export function wholeCrosses(keys: Iterable<string>): readonly KeyCross[] {
  const known = new Set(keys);
  return CROSSES.filter((cross) => cross.every((key) => known.has(key)));
}

/**
 * Which key of a model an event is of. Letters that form a whole cross go by their place, so that the hand lies as on a US keyboard:
 * the four keys at W, A, S and D of a French keyboard say Z, Q, S and D. Any other key goes by what is printed on it, then by its place.
 */
export class KeyLayout {
  #keys: ReadonlySet<string>;
  #placed: ReadonlySet<string>;
  #given: ReadonlyMap<string, string>;
  #moved: ReadonlySet<string>;

  /** `given` are the keys of the model by the place (`code`) that the user gave them; these have no other place. */
  constructor(keys: Iterable<string>, given: ReadonlyMap<string, string> = new Map()) {
    this.#keys = new Set(keys);
    this.#placed = new Set(wholeCrosses(this.#keys).flatMap((cross) => cross.filter((key) => key.length === 1)));
    this.#given = given;
    this.#moved = new Set(given.values());
  }

  /** The model's key, or undefined. */
  find(event: KeyOfEvent): string | undefined {
    const given = this.#given.get(event.code);
    if (given !== undefined) return given;
    const place = keyPlace(event.code);
    if (place !== undefined && this.#placed.has(place)) return this.#moved.has(place) ? undefined : place;
    // A keyboard on the screen has no places: there a letter of a cross goes by its print.
    return keyNames(event).find(
      (name) => this.#keys.has(name) && !this.#moved.has(name) && !(place !== undefined && this.#placed.has(name)),
    );
  }
}

/** What `needsKey` looks at in an element. */
interface Focused {
  readonly tagName: string;
  readonly type?: string | undefined;
  readonly isContentEditable?: boolean;
}

/** Whether a focused element needs this key itself. */
export function needsKey(target: Focused | null, { key }: Pick<KeyboardEvent, "key">): boolean {
  const tag = target?.tagName;
  if (tag === "TEXTAREA" || tag === "SELECT" || target?.isContentEditable) return true;
  if (tag === "INPUT" && target?.type === "range") return /^(Arrow|Page|Home|End|Tab)/.test(key);
  if (tag === "INPUT" && target?.type !== "checkbox" && target?.type !== "file") return true;
  return (tag === "BUTTON" || tag === "INPUT" || tag === "SUMMARY") && (key === " " || key === "Enter" || key === "Tab");
}

export class KeyboardBinding {
  #presses: ReadonlyMap<string, Press>;
  /** Which keys press. Change it to let the user choose other keys; what is held then stays held. */
  layout: KeyLayout;
  #held = new Map<string, Press>();
  #stop = new AbortController();

  /** `presses` are by the names of their keys. Listens on `target` until `close`. */
  constructor(presses: ReadonlyMap<string, Press>, target: Window = window) {
    this.#presses = presses;
    this.layout = new KeyLayout(presses.keys());
    const until = { signal: this.#stop.signal };
    target.addEventListener("keydown", (event) => this.#down(event), until);
    target.addEventListener("keyup", (event) => this.#up(event.code), until);
    target.addEventListener("blur", () => this.release(), until);
    document.addEventListener("visibilitychange", () => document.hidden && this.release(), until);
  }

  /** Releases all keys. */
  release(): void {
    for (const press of this.#presses.values()) press.releaseAll();
    this.#held.clear();
  }

  /** Ends with the session: releases all keys without sending. */
  close(): void {
    this.#stop.abort();
    for (const press of this.#presses.values()) press.close();
  }

  #down(event: KeyboardEvent): void {
    const [target] = event.composedPath(); // for a field in a shadow root, `event.target` is the element around it
    const focused = target instanceof HTMLElement ? target : null;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || needsKey(focused, event)) return;
    const press = this.#presses.get(this.layout.find(event) ?? "");
    if (press === undefined) return;
    event.preventDefault();
    if (event.repeat) press.repeat();
    else {
      this.#held.set(event.code, press);
      press.press(event.code);
    }
  }

  #up(code: string): void {
    this.#held.get(code)?.release(code);
    this.#held.delete(code);
  }
}
