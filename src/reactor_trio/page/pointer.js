/**
 * Binds the commands `pointer_down`, `pointer_move` and `pointer_up` to the picture: mouse, pen, or the first finger.
 *
 * Positions are relative to the picture as drawn, from 0 to 1, right and down, without the black bars beside it. A
 * pressed pointer that leaves the picture has its position at the nearest edge. Moves are sent while the pointer is pressed, or
 * always if the model has no `pointer_down`; one is in flight at a time, and the newest follows. `pointer_up` carries
 * the last position itself, so no move follows it. While the pointer is locked to the picture (`pointer-lock.js`), its position is
 * the middle.
 */
import { Coalescer } from "./coalesce.js";
import { element, refusalLine } from "./dom.js";

const WORDS = { down: "Press", move: "Drag", up: "Let go" };

/** The part of `box` that shows a picture of `width` by `height` with its aspect ratio: {left, top, width, height}. */
export function contentBox(box, width, height) {
  const scale = Math.min(box.width / width, box.height / height);
  const drawn = { width: width * scale, height: height * scale };
  return { left: box.left + (box.width - drawn.width) / 2, top: box.top + (box.height - drawn.height) / 2, ...drawn };
}

/** The point of the window as a part of `drawn`: {x, y, inside}, with x and y kept within 0 and 1. */
export function relativePosition(drawn, { clientX, clientY }) {
  const [x, y] = [(clientX - drawn.left) / drawn.width, (clientY - drawn.top) / drawn.height];
  const within = (value) => Math.min(1, Math.max(0, value));
  return { x: within(x), y: within(y), inside: x === within(x) && y === within(y) };
}

export class Pointer {
  #commands;
  #send;
  #canvas;
  #pressed = null;
  #sender = new Coalescer(({ phase, position }) => this.#sendPosition(phase, position));
  #refusal = refusalLine();
  #stop = new AbortController();

  /** `commands` are those of the schema by their part of the name ("down", "move", "up"), on `canvas` until `close`. */
  constructor(commands, send, canvas) {
    this.#commands = commands;
    this.#send = send;
    this.#canvas = canvas;
    if (!canvas || Object.keys(commands).length === 0) return;
    canvas.classList.add("pointed");
    const until = { signal: this.#stop.signal };
    canvas.addEventListener("pointerdown", (event) => this.#down(event), until);
    canvas.addEventListener("pointermove", (event) => this.#move(event), until);
    canvas.addEventListener("pointerup", (event) => this.#up(event), until);
    canvas.addEventListener("pointercancel", (event) => this.#up(event), until);
    canvas.addEventListener("contextmenu", (event) => this.#pressed !== null && event.preventDefault(), until);
  }

  get #locked() {
    return document.pointerLockElement === this.#canvas;
  }

  close() {
    this.#stop.abort();
    this.#canvas?.classList.remove("pointed");
  }

  legend() {
    const lines = Object.entries(WORDS).filter(([phase]) => phase in this.#commands).map(([phase, words]) => {
      const { name, description } = this.#commands[phase];
      const word = phase === "move" && !("down" in this.#commands) ? "Move" : words;
      return element("li", { "data-command": name }, element("kbd", {}, word), ` ${description || "on the picture"}`);
    });
    return [element("ul", { class: "notes" }, ...lines), this.#refusal.element];
  }

  #down(event) {
    if (event.button !== 0 || !event.isPrimary || this.#pressed !== null) return;
    const position = this.#position(event);
    if (!position.inside) return;
    if (!this.#locked) this.#canvas.setPointerCapture(event.pointerId); // a locked pointer belongs to the canvas and cannot be captured
    this.#pressed = event.pointerId;
    this.#sender.sendNow({ phase: "down", position });
  }

  #move(event) {
    if (this.#pressed === null ? "down" in this.#commands || !event.isPrimary : event.pointerId !== this.#pressed) return;
    if (this.#locked) return; // a locked pointer has no position; `pointer_look` sends its movement
    const position = this.#position(event);
    if (this.#pressed === null && !position.inside) return;
    this.#sender.push({ phase: "move", position });
  }

  #up(event) {
    if (event.pointerId !== this.#pressed) return;
    this.#pressed = null;
    if ("up" in this.#commands) this.#sender.discardWaiting();
    this.#sender.sendNow({ phase: "up", position: this.#position(event) });
  }

  async #sendPosition(phase, { x, y }) {
    if (phase in this.#commands) await this.#refusal.follow(this.#send(this.#commands[phase].name, { x, y }));
  }

  #position(event) {
    if (this.#locked) return { x: 0.5, y: 0.5, inside: true };
    const { width, height } = this.#canvas;
    return relativePosition(contentBox(this.#canvas.getBoundingClientRect(), width, height), event);
  }
}
