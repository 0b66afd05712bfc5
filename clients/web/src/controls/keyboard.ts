/**
 * Binds presses to keys. A key presses at once, and repeats as the browser repeats it; when the page loses the keyboard, all held
 * keys are released. Focused fields keep the keys that they need.
 */
import type { Press } from "./press.ts";

/** The key names of a keyboard event: the printed key first, then its place on a US keyboard. */
export function keyNames({ key, code }: Pick<KeyboardEvent, "key" | "code">): string[] {
  const printed = key === " " ? "space" : key.toLowerCase().replace(/^arrow/, "");
  const place = /^(?:Key|Digit|Numpad|Arrow)([A-Z0-9][a-z]*)$/.exec(code)?.[1]?.toLowerCase();
  return place === undefined || place === printed ? [printed] : [printed, place];
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
  #held = new Map<string, Press>();
  #stop = new AbortController();

  /** `presses` are by the names of their keys. Listens on `target` until `close`. */
  constructor(presses: ReadonlyMap<string, Press>, target: Window = window) {
    this.#presses = presses;
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
    const press = keyNames(event)
      .map((name) => this.#presses.get(name))
      .find((found) => found !== undefined);
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
