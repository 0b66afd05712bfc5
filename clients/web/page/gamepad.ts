/** The legend of the commands `gamepad_<button>` and `gamepad_axes`: a button for each, the descriptions, and the gamepad's name. */
import type { PadButtonCommand, PadCommands, SendCommand } from "../src/controls.ts";
import { GamepadBinding, padName } from "../src/controls.ts";
import { element, refusalLine } from "./dom.ts";
import { legendButtons, legendNotes, PressButton } from "./press-button.ts";
import { wordsOf } from "./refused-words.ts";
import { buttonSign, labelOf } from "./signs.ts";
import { fillIn, HANDS } from "./strings.ts";

export class Gamepads {
  #buttons: readonly (Omit<PadButtonCommand, "name"> & { readonly sign: string; readonly shown: PressButton })[];
  #axes: PadCommands["axes"];
  #status = element("p", { class: "description", "data-gamepad": "none" });
  #refusal = refusalLine(wordsOf);
  #binding: GamepadBinding;

  /** {buttons, axes} are as `readCommands` returns them. */
  constructor({ buttons, axes }: PadCommands, send: SendCommand) {
    const followed = this.#refusal.following(send);
    this.#axes = axes;
    this.#buttons = buttons.map(({ name, button, mode, description }) => {
      const sign = buttonSign(button);
      const label = labelOf(description || fillIn(HANDS.gamepadButton, { button }), sign);
      const shown = new PressButton({ name, mode }, followed, sign, { "data-button": button, "aria-label": label });
      return { button, mode, sign, description, shown };
    });
    const presses = this.#buttons.map(({ button, mode, shown }) => ({ button, mode, press: shown.press }));
    this.#binding = new GamepadBinding(presses, axes, followed, (pad) => this.#showStatus(pad));
  }

  close(): void {
    this.#binding.close();
  }

  legend(): (HTMLElement | null)[] {
    const lines: [string, string][] = this.#buttons.map(({ sign, description }) => [sign, description]);
    if (this.#axes) lines.push([HANDS.sticks, this.#axes.description || this.#axes.fields.join(", ")]);
    return [
      this.#status,
      legendButtons(this.#buttons.map(({ button, shown }) => [button, shown])),
      legendNotes(lines),
      this.#refusal.element,
    ];
  }

  #showStatus(pad: Gamepad | null): void {
    const text = statusText(pad);
    if (this.#status.textContent === text) return; // it is looked at in each animation frame
    this.#status.dataset.gamepad = pad ? "connected" : "none";
    this.#status.textContent = text;
  }
}

function statusText(pad: Gamepad | null): string {
  if (!navigator.getGamepads) return HANDS.noGamepads;
  if (!pad) return HANDS.pressGamepad;
  const name = padName(pad.id);
  return pad.mapping === "standard" ? name : fillIn(HANDS.otherGamepad, { name });
}
