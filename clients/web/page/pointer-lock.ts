/** The legend of the command `pointer_look`, and the picture that it is bound to. */
import type { LookCommand, SendCommand } from "../src/controls.ts";
import { LookBinding } from "../src/controls.ts";
import { element, refusalLine } from "./dom.ts";
import { wordsOf } from "./refused-words.ts";
import { fillIn, HANDS } from "./strings.ts";

export class PointerLock {
  #command: LookCommand;
  #canvas: HTMLCanvasElement | null;
  #state = element("span", { role: "status" });
  #refusal = refusalLine(wordsOf);
  #binding: LookBinding;

  constructor(command: LookCommand, send: SendCommand, canvas: HTMLCanvasElement | null) {
    this.#command = command;
    this.#canvas = canvas;
    this.#binding = new LookBinding(command, this.#refusal.following(send), canvas, {
      locked: (yes) => this.#showState(yes),
      refused: (message) => {
        if (message === null) this.#refusal.hide();
        else this.#refusal.show({ message: fillIn(HANDS.notLooking, { why: message }) });
      },
    });
    canvas?.classList.add("looked");
  }

  close(): void {
    this.#binding.close();
    this.#canvas?.classList.remove("looked");
  }

  legend(): HTMLElement[] {
    const { name, description } = this.#command;
    const line = element("li", { "data-command": name }, element("kbd", {}, HANDS.look), ` ${description || HANDS.around}. `, this.#state);
    return [element("ul", { class: "notes" }, line), this.#refusal.element];
  }

  #showState(locked: boolean): void {
    const how = matchMedia("(pointer: coarse)").matches ? HANDS.dragToLook : HANDS.clickToLook;
    this.#state.textContent = locked ? HANDS.looking : how;
  }
}
