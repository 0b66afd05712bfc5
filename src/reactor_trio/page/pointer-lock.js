/**
 * Binds the command `pointer_look` to the movement of the pointer, for models that look around. A click on the picture locks
 * the mouse to it (Pointer Lock API); the mouse is then hidden and never reaches an edge. Escape releases it. A finger or a pen
 * looks by dragging.
 *
 * Distances are right and down, both in widths of the picture as drawn.
 */
import { MovementSum } from "./coalesce.js";
import { element, refusalLine } from "./dom.js";
import { contentBox } from "./pointer.js";

export class PointerLock {
  #command;
  #canvas;
  #movement;
  #drag = null;
  #state = element("span", { role: "status" });
  #refusal = refusalLine();
  #stop = new AbortController();

  /** `command` is {name, description, limits} as `readCommands` returns it, or null. Listens on `canvas` until `close`. */
  constructor(command, send, canvas) {
    this.#command = command;
    this.#canvas = canvas;
    if (!canvas || command === null) return;
    this.#movement = new MovementSum((data) => this.#refusal.follow(send(command.name, data)), command.limits);
    canvas.classList.add("looked");
    const until = { signal: this.#stop.signal };
    canvas.addEventListener("click", ({ pointerType }) => pointerType === "mouse" && this.#lock(), until);
    canvas.addEventListener("pointermove", (event) => this.#move(event), until);
    canvas.addEventListener("pointerdown", (event) => this.#down(event), until);
    canvas.addEventListener("pointerup", (event) => this.#up(event), until);
    canvas.addEventListener("pointercancel", (event) => this.#up(event), until);
    document.addEventListener("pointerlockchange", () => this.#showState(), until);
    this.#showState();
  }

  get #locked() {
    return document.pointerLockElement === this.#canvas;
  }

  close() {
    this.#stop.abort();
    if (this.#canvas && this.#locked) document.exitPointerLock();
    this.#canvas?.classList.remove("looked");
  }

  legend() {
    const { name, description } = this.#command;
    const line = element("li", { "data-command": name }, element("kbd", {}, "Look"), ` ${description || "around"}. `, this.#state);
    return [element("ul", { class: "notes" }, line), this.#refusal.element];
  }

  async #lock() {
    if (this.#locked) return;
    try {
      await this.#canvas.requestPointerLock();
      this.#refusal.hide();
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#refusal.show({ message: `The browser kept the pointer: ${error.message}` });
    }
  }

  #down(event) {
    if (event.pointerType === "mouse" || !event.isPrimary) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#drag = { id: event.pointerId, x: event.clientX, y: event.clientY };
  }

  #move(event) {
    if (this.#locked && event.pointerType === "mouse") this.#addMovement(event.movementX, event.movementY);
    if (event.pointerId !== this.#drag?.id) return;
    const { x, y } = this.#drag;
    Object.assign(this.#drag, { x: event.clientX, y: event.clientY });
    this.#addMovement(event.clientX - x, event.clientY - y);
  }

  #up({ pointerId }) {
    if (pointerId === this.#drag?.id) this.#drag = null;
  }

  #addMovement(right, down) {
    const { width } = contentBox(this.#canvas.getBoundingClientRect(), this.#canvas.width, this.#canvas.height);
    if (width > 0) this.#movement.add({ dx: right / width, dy: down / width });
  }

  #showState() {
    const how = matchMedia("(pointer: coarse)").matches ? "Drag on the picture." : "Click the picture to look with the mouse.";
    this.#state.textContent = this.#locked ? "Escape gives the mouse back." : how;
    this.#canvas.classList.toggle("looking", this.#locked);
  }
}
