/** The legend of commands named `key_<name>`: a button for each key, for users without a keyboard, and the descriptions. */
import type { KeyCommand, SendCommand } from "../src/controls.ts";
import { KeyboardBinding } from "../src/controls.ts";
import { refusalLine } from "./dom.ts";
import { legendButtons, legendNotes, PressButton } from "./press-button.ts";

const LABELS: { readonly [key: string]: string | undefined } = {
  up: "↑",
  down: "↓",
  left: "←",
  right: "→",
  space: "Space",
  escape: "Esc",
  enter: "Enter",
};

export class Keyboard {
  #keys: readonly { readonly command: KeyCommand; readonly sign: string; readonly button: PressButton }[];
  #refusal = refusalLine();
  #binding: KeyboardBinding;

  constructor(commands: readonly KeyCommand[], send: SendCommand) {
    this.#keys = commands.map((command) => {
      const sign = LABELS[command.key] ?? (command.key.length === 1 ? command.key.toUpperCase() : command.title);
      const label = command.description || `key ${command.title}`;
      const pressed = { name: command.name, mode: command.held ? "down" : "plain" } as const;
      const button = new PressButton(pressed, this.#refusal.following(send), sign, { "data-key": command.key, "aria-label": label });
      return { command, sign, button };
    });
    this.#binding = new KeyboardBinding(new Map(this.#keys.map(({ command, button }) => [command.key, button.press])));
  }

  close(): void {
    this.#binding.close();
  }

  legend(): (HTMLElement | null)[] {
    const lines = legendNotes(this.#keys.map(({ command, sign }) => [sign, command.description]));
    return [legendButtons(this.#keys.map(({ command, button }) => [command.key, button])), lines, this.#refusal.element];
  }
}
