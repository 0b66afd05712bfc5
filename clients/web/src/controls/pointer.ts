/**
 * Binds the commands `pointer_down`, `pointer_move` and `pointer_up` to the picture: mouse, pen, or the first
 * finger on it; a finger elsewhere, such as on a touch pad, does not count.
 *
 * Positions are relative to the picture as drawn, as the canvas's style `object-fit` has it, from 0 to 1, right and down, without
 * the black bars beside it. A
 * pressed pointer that leaves the picture has its position at the nearest edge. Moves are sent while the pointer is pressed, or
 * always if the model has no `pointer_down`; one is in flight at a time, and the newest follows. While nothing is pressed, they are
 * those of the finger that has been down for the longest time, and those of a mouse while no finger is down. `pointer_up` carries
 * the last position itself, so no move follows it. While the pointer is locked to the picture (`look.ts`), its position is
 * the middle.
 */

import { Coalescer } from "../input/coalesce.ts";
import { type SendCommand, sending } from "./press.ts";
import type { PointerCommands, PointerPhase } from "./schema.ts";

/** A rectangle in pixels of the window. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** A position on the picture, from 0 to 1; `inside` is whether the pointer is on the picture, not beside it. */
export interface Position {
  readonly x: number;
  readonly y: number;
  readonly inside: boolean;
}

/**
 * Where a picture of `width` by `height` is drawn in the middle of `box`: {left, top, width, height}. `fit` is a value of the style
 * `object-fit`; with "cover" and "none" the picture may be larger than the box.
 */
export function contentBox(box: Box, width: number, height: number, fit = "contain"): Box {
  if (fit === "fill") return box;
  const [across, down] = [box.width / width, box.height / height];
  const contained = Math.min(across, down);
  const scale = { cover: Math.max(across, down), none: 1, "scale-down": Math.min(1, contained) }[fit] ?? contained;
  const drawn = { width: width * scale, height: height * scale };
  return { left: box.left + (box.width - drawn.width) / 2, top: box.top + (box.height - drawn.height) / 2, ...drawn };
}

/** Where the picture of `canvas` is drawn in the window. */
export function drawnBox(canvas: HTMLCanvasElement): Box {
  return contentBox(canvas.getBoundingClientRect(), canvas.width, canvas.height, getComputedStyle(canvas).objectFit);
}

/** The point of the window as a part of `drawn`: {x, y, inside}, with x and y kept within 0 and 1. */
export function relativePosition(drawn: Box, { clientX, clientY }: { readonly clientX: number; readonly clientY: number }): Position {
  const [x, y] = [(clientX - drawn.left) / drawn.width, (clientY - drawn.top) / drawn.height];
  const within = (value: number): number => Math.min(1, Math.max(0, value));
  return { x: within(x), y: within(y), inside: x === within(x) && y === within(y) };
}

/** Whether the pointer is locked to `canvas`. For a canvas in a shadow root the document names the element around it. */
export function isLockedTo(canvas: HTMLCanvasElement | null): boolean {
  return canvas !== null && (canvas.getRootNode() as Document | ShadowRoot).pointerLockElement === canvas;
}

export class PointerBinding {
  #commands: PointerCommands;
  #send: ReturnType<typeof sending>;
  #canvas: HTMLCanvasElement | null;
  #pressed: number | null = null;
  #fingers = new Set<number>(); // that are down, in the order in which they came
  #last: Position = { x: 0.5, y: 0.5, inside: true };
  #sender = new Coalescer(({ phase, position }: { phase: PointerPhase; position: Position }) => this.#sendPosition(phase, position));
  #stop = new AbortController();

  /** `commands` are those of the schema by their part of the name ("down", "move", "up"), on `canvas` until `close`. */
  constructor(commands: PointerCommands, send: SendCommand, canvas: HTMLCanvasElement | null) {
    this.#commands = commands;
    this.#send = sending(send);
    this.#canvas = canvas;
    if (!canvas || Object.keys(commands).length === 0) return;
    const until = { signal: this.#stop.signal };
    canvas.addEventListener("pointerdown", (event) => this.#down(event, canvas), until);
    canvas.addEventListener("pointermove", (event) => this.#move(event, canvas), until);
    canvas.addEventListener("pointerup", (event) => this.#up(event, canvas), until);
    canvas.addEventListener("pointercancel", (event) => this.#up(event, canvas), until);
    canvas.addEventListener("contextmenu", (event) => this.#pressed !== null && event.preventDefault(), until);
  }

  get #locked(): boolean {
    return isLockedTo(this.#canvas);
  }

  /** Lets go of the picture, at the last position. */
  release(): void {
    if (this.#pressed !== null) this.#letGo(this.#last);
  }

  /** Ends with the session: lets go without sending. */
  close(): void {
    this.#stop.abort();
    this.#pressed = null;
  }

  #down(event: PointerEvent, canvas: HTMLCanvasElement): void {
    if (event.pointerType === "touch") this.#fingers.add(event.pointerId);
    if (event.button !== 0 || this.#pressed !== null) return;
    const position = this.#position(event, canvas);
    if (!position.inside) return;
    if (!this.#locked) canvas.setPointerCapture(event.pointerId); // a locked pointer belongs to the canvas and cannot be captured
    this.#pressed = event.pointerId;
    void this.#sender.sendNow({ phase: "down", position });
  }

  #move(event: PointerEvent, canvas: HTMLCanvasElement): void {
    if (this.#pressed === null && "down" in this.#commands) return;
    const [owner = event.pointerId] = this.#pressed === null ? this.#fingers : [this.#pressed];
    if (event.pointerId !== owner) return;
    if (this.#locked) return; // a locked pointer has no position; `pointer_look` sends its movement
    const position = this.#position(event, canvas);
    if (this.#pressed === null && !position.inside) return;
    this.#sender.push({ phase: "move", position });
  }

  #up(event: PointerEvent, canvas: HTMLCanvasElement): void {
    this.#fingers.delete(event.pointerId);
    if (event.pointerId === this.#pressed) this.#letGo(this.#position(event, canvas));
  }

  #letGo(position: Position): void {
    this.#pressed = null;
    if ("up" in this.#commands) this.#sender.discardWaiting();
    void this.#sender.sendNow({ phase: "up", position });
  }

  async #sendPosition(phase: PointerPhase, { x, y }: Position): Promise<void> {
    const command = this.#commands[phase];
    if (command !== undefined) await this.#send(command.name, { x, y });
  }

  #position(event: PointerEvent, canvas: HTMLCanvasElement): Position {
    this.#last = this.#locked ? { x: 0.5, y: 0.5, inside: true } : relativePosition(drawnBox(canvas), event);
    return this.#last;
  }
}
