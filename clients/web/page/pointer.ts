/** The legend of the commands `pointer_down`, `pointer_move` and `pointer_up`, and the picture that they are bound to. */
import type { PointerCommands, SendCommand } from "../src/controls.ts";
import { PointerBinding } from "../src/controls.ts";
import { element, refusalLine } from "./dom.ts";
import { wordsOf } from "./refused-words.ts";
import { pointerRows } from "./signs.ts";

export class Pointer {
  #commands: PointerCommands;
  #canvas: HTMLCanvasElement | null;
  #refusal = refusalLine(wordsOf);
  #binding: PointerBinding;

  constructor(commands: PointerCommands, send: SendCommand, canvas: HTMLCanvasElement | null) {
    this.#commands = commands;
    this.#canvas = canvas;
    this.#binding = new PointerBinding(commands, this.#refusal.following(send), canvas);
    if (Object.keys(commands).length > 0) canvas?.classList.add("pointed");
  }

  close(): void {
    this.#binding.close();
    this.#canvas?.classList.remove("pointed");
  }

  legend(): HTMLElement[] {
    const lines = pointerRows(this.#commands).map(({ name, sign, words }) =>
      element("li", { "data-command": name }, element("kbd", {}, sign), ` ${words}`),
    );
    return [element("ul", { class: "notes" }, ...lines), this.#refusal.element];
  }
}
