/** The legend of commands named `key_<name>`: a button for each key, for users without a keyboard, and the descriptions. */
import type { KeyCommand, SendCommand } from "../src/controls.ts";
import { KeyboardBinding } from "../src/controls.ts";
import { refusalLine } from "./dom.ts";
import type { KeyMap } from "./key-map.ts";
import { legendButtons, legendNotes, PressButton } from "./press-button.ts";
import { wordsOf } from "./refused-words.ts";
import { followPrintedKeys, keySign, labelOf } from "./signs.ts";
import { fillIn, HANDS } from "./strings.ts";

/** A key of the model. */
export interface ShownKey {
  readonly command: KeyCommand;
  readonly button: PressButton;
}

export class Keyboard {
  readonly keys: readonly ShownKey[];
  /** The keys that the user chose. Call `showMap` after a change. */
  readonly map: KeyMap;
  /** Called when what stands on the keys has changed. */
  signsChanged: () => void = () => {};
  #notes: HTMLElement | null = null;
  #onPads: ReadonlySet<string> = new Set();
  #refusal = refusalLine(wordsOf);
  #binding: KeyboardBinding;
  #stop = new AbortController();

  constructor(commands: readonly KeyCommand[], send: SendCommand, map: KeyMap) {
    this.map = map;
    this.keys = commands.map((command) => {
      const pressed = { name: command.name, mode: command.held ? "down" : "plain" } as const;
      const button = new PressButton(pressed, this.#refusal.following(send), this.sign(command), {
        "data-key": command.key,
        "aria-label": this.#label(command),
      });
      return { command, button };
    });
    this.#binding = new KeyboardBinding(new Map(this.keys.map(({ command, button }) => [command.key, button.press])));
    this.#binding.layout = map.layout;
    void followPrintedKeys((keys) => {
      map.printed = keys;
      this.showMap();
    }, this.#stop.signal);
  }

  /** What stands on the key that presses the command. */
  sign({ key, title }: KeyCommand): string {
    return this.map.sign(key) ?? keySign(key, title);
  }

  release(): void {
    this.#binding.release();
  }

  close(): void {
    this.#stop.abort();
    this.#binding.close();
  }

  legend(): (HTMLElement | null)[] {
    this.#notes = this.#lines();
    return [legendButtons(this.keys.map(({ command, button }) => [command.key, button])), this.#notes, this.#refusal.element];
  }

  /** Marks the keys that touch pads show: the legend need not show them again. */
  showOnPads(keys: ReadonlySet<string>): void {
    this.#onPads = keys;
    for (const { command, button } of this.keys) button.button.classList.toggle("on-pad", keys.has(command.key));
    this.#showLines();
  }

  /** Uses and shows the keys that the user has chosen. */
  showMap(): void {
    this.#binding.layout = this.map.layout;
    for (const { command, button } of this.keys) {
      button.button.textContent = this.sign(command);
      button.button.ariaLabel = this.#label(command);
    }
    this.#showLines();
    this.signsChanged();
  }

  #label(command: KeyCommand): string {
    return labelOf(command.description || fillIn(HANDS.key, { key: command.title }), this.sign(command));
  }

  #showLines(): void {
    const lines = this.#lines();
    if (lines) this.#notes?.replaceWith(lines);
    this.#notes = lines;
  }

  #lines(): HTMLElement | null {
    const described = this.keys.map(({ command }) => command).filter(({ description }) => description);
    const lines = legendNotes(described.map((command) => [this.sign(command), command.description]));
    described.forEach(({ key }, i) => lines?.children[i]?.classList.toggle("on-pad", this.#onPads.has(key)));
    return lines;
  }
}
