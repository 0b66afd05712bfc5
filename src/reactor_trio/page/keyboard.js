/**
 * Binds commands named `key_<name>` to that key, and to a button in the legend for users without a keyboard.
 *
 * A plain key command is sent at each press, and again when the browser repeats the held key and the model has
 * answered the command before. A command with a `down` argument is sent once with true and once with false. When the page
 * loses the keyboard, it releases all held keys. Focused fields keep the keys that they need.
 */
import { refusalLine } from "./dom.js";
import { PressCommand, legendButtons, legendNotes } from "./press-command.js";

const LABELS = { up: "↑", down: "↓", left: "←", right: "→", space: "Space", escape: "Esc", enter: "Enter" };

/** The key names of a keyboard event: the printed key first, then its place on a US keyboard. */
export function keyNames({ key, code }) {
  const printed = key === " " ? "space" : key.toLowerCase().replace(/^arrow/, "");
  const place = /^(?:Key|Digit|Numpad|Arrow)([A-Z0-9][a-z]*)$/.exec(code)?.[1]?.toLowerCase();
  return place === undefined || place === printed ? [printed] : [printed, place];
}

/** Whether a focused element needs this key itself. */
export function needsKey(target, { key }) {
  const tag = target?.tagName;
  if (tag === "TEXTAREA" || tag === "SELECT" || target?.isContentEditable) return true;
  if (tag === "INPUT" && target.type === "range") return /^(Arrow|Page|Home|End|Tab)/.test(key);
  if (tag === "INPUT" && target.type !== "checkbox" && target.type !== "file") return true;
  return (tag === "BUTTON" || tag === "INPUT" || tag === "SUMMARY") && (key === " " || key === "Enter" || key === "Tab");
}

export class Keyboard {
  #keys = new Map();
  #held = new Map();
  #refusal = refusalLine();
  #stop = new AbortController();

  /** Listens on `target` until `close`. */
  constructor(commands, send, target = window) {
    for (const command of commands) this.#keys.set(command.key, this.#bind(command, send));
    const until = { signal: this.#stop.signal };
    target.addEventListener("keydown", (event) => this.#down(event), until);
    target.addEventListener("keyup", (event) => this.#up(event.code), until);
    target.addEventListener("blur", () => this.#release(), until);
    document.addEventListener("visibilitychange", () => document.hidden && this.#release(), until);
  }

  close() {
    this.#stop.abort();
    for (const { press } of this.#keys.values()) press.close();
  }

  /** The legend: a button for each key, and the descriptions. */
  legend() {
    const lines = legendNotes([...this.#keys.values()].map(({ command, sign }) => [sign, command.description]));
    return [legendButtons([...this.#keys].map(([name, { press }]) => [name, press])), lines, this.#refusal.element];
  }

  #bind(command, send) {
    const sign = LABELS[command.key] ?? (command.key.length === 1 ? command.key.toUpperCase() : command.title);
    const label = command.description || `key ${command.title}`;
    const mode = command.held ? "down" : "plain";
    const press = new PressCommand({ name: command.name, mode }, send, this.#refusal, sign, { "data-key": command.key, "aria-label": label });
    return { command, sign, press };
  }

  #down(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || needsKey(event.target, event)) return;
    const key = keyNames(event).map((name) => this.#keys.get(name)).find(Boolean);
    if (!key) return;
    event.preventDefault();
    if (event.repeat) key.press.repeat();
    else {
      this.#held.set(event.code, key.press);
      key.press.press(event.code);
    }
  }

  #up(code) {
    this.#held.get(code)?.release(code);
    this.#held.delete(code);
  }

  #release() {
    for (const { press } of this.#keys.values()) press.releaseAll();
    this.#held.clear();
  }
}
