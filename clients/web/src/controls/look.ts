/**
 * Binds the command `pointer_look` to the movement of the pointer, for models that look around. A click on the picture locks
 * the mouse to it (Pointer Lock API); the mouse is then hidden and never reaches an edge. Escape releases it. A finger or a pen
 * looks by dragging.
 *
 * Distances are right and down, both in widths of the picture as drawn.
 */

import { MovementSum } from "../input/coalesce.ts";
import { drawnBox, isLockedTo } from "./pointer.ts";
import { type SendCommand, sending } from "./press.ts";
import type { LookCommand } from "./schema.ts";

/** What a page may want to show of a look. */
export interface LookListener {
  /** Whether the mouse is locked to the picture; called at first too. */
  locked(yes: boolean): void;
  /** Why the browser kept the pointer; null: it gave it. */
  refused(message: string | null): void;
}

export class LookBinding {
  #canvas: HTMLCanvasElement | null;
  #movement: MovementSum | null = null;
  #drag: { readonly id: number; x: number; y: number } | null = null;
  #listener: LookListener;
  #stop = new AbortController();

  /** `command` is {name, description, limits} as `readCommands` returns it, or null. Listens on `canvas` until `close`. */
  constructor(command: LookCommand | null, send: SendCommand, canvas: HTMLCanvasElement | null, listener: LookListener) {
    this.#listener = listener;
    this.#canvas = canvas;
    if (!canvas || command === null) return;
    const sent = sending(send);
    this.#movement = new MovementSum((data) => sent(command.name, { ...data }), command.limits);
    const until = { signal: this.#stop.signal };
    canvas.addEventListener("click", ({ pointerType }) => pointerType === "mouse" && this.#lock(canvas), until);
    canvas.addEventListener("pointermove", (event) => this.#move(event, canvas), until);
    canvas.addEventListener("pointerdown", (event) => this.#down(event, canvas), until);
    canvas.addEventListener("pointerup", (event) => this.#up(event), until);
    canvas.addEventListener("pointercancel", (event) => this.#up(event), until);
    document.addEventListener("pointerlockchange", () => listener.locked(this.#locked), until);
    listener.locked(false);
  }

  get #locked(): boolean {
    return isLockedTo(this.#canvas);
  }

  close(): void {
    this.#stop.abort();
    if (this.#locked) document.exitPointerLock();
  }

  async #lock(canvas: HTMLCanvasElement): Promise<void> {
    if (this.#locked) return;
    try {
      await canvas.requestPointerLock();
      if (this.#stop.signal.aborted)
        this.close(); // meanwhile
      else this.#listener.refused(null);
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#listener.refused((error as Error).message);
    }
  }

  #down(event: PointerEvent, canvas: HTMLCanvasElement): void {
    // Another finger may be the browser's primary one, such as one on a touch pad. A primary finger is the only one there is.
    if (event.pointerType === "mouse" || (this.#drag !== null && !event.isPrimary)) return;
    canvas.setPointerCapture(event.pointerId);
    this.#drag = { id: event.pointerId, x: event.clientX, y: event.clientY };
  }

  #move(event: PointerEvent, canvas: HTMLCanvasElement): void {
    if (this.#locked && event.pointerType === "mouse") this.#addMovement(canvas, event.movementX, event.movementY);
    if (event.pointerId !== this.#drag?.id) return;
    const { x, y } = this.#drag;
    Object.assign(this.#drag, { x: event.clientX, y: event.clientY });
    this.#addMovement(canvas, event.clientX - x, event.clientY - y);
  }

  #up({ pointerId }: PointerEvent): void {
    if (pointerId === this.#drag?.id) this.#drag = null;
  }

  #addMovement(canvas: HTMLCanvasElement, right: number, down: number): void {
    const { width } = drawnBox(canvas);
    if (width > 0) this.#movement?.add({ dx: right / width, dy: down / width });
  }
}
