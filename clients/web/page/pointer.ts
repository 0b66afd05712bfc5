/** The legend of the commands `pointer_down`, `pointer_move` and `pointer_up`, and the picture that they are bound to. */
import type { PointerCommands, PointerPhase, SendCommand } from "../src/controls.ts";
import { PointerBinding } from "../src/controls.ts";
import { element, refusalLine } from "./dom.ts";

const WORDS: readonly (readonly [PointerPhase, string])[] = [
  ["down", "Press"],
  ["move", "Drag"],
  ["up", "Let go"],
];

export class Pointer {
  #commands: PointerCommands;
  #canvas: HTMLCanvasElement | null;
  #refusal = refusalLine();
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
    const lines = WORDS.flatMap(([phase, words]) => {
      const command = this.#commands[phase];
      if (command === undefined) return [];
      const word = phase === "move" && !("down" in this.#commands) ? "Move" : words;
      return [element("li", { "data-command": command.name }, element("kbd", {}, word), ` ${command.description || "on the picture"}`)];
    });
    return [element("ul", { class: "notes" }, ...lines), this.#refusal.element];
  }
}
