/**
 * Binds the commands `gamepad_<button>` and `gamepad_axes` to the first connected gamepad, with the names of the standard
 * mapping. Browsers have no events for gamepad buttons, so the page reads the gamepad in each animation frame while one is
 * connected and the page is visible. When the page is hidden or the gamepad is unplugged, it releases everything.
 *
 * A held button repeats a plain command as a keyboard would. Sticks have a dead zone. The axes' command is sent when a
 * value has changed, one message at a time, the newest last.
 */

import { Coalescer } from "../input/coalesce.ts";
import { type Press, REPEAT, type SendCommand, sending } from "./press.ts";
import type { PadAxesCommand, PadAxis, PadButton, PressMode } from "./schema.ts";
import { PAD_BUTTONS } from "./schema.ts";

export const DEAD_ZONE = 0.12;
const TRIGGER_REST = 0.04;

/** What `readPad` looks at in the browser's `Gamepad`. */
interface RawPad {
  readonly buttons: readonly Pick<GamepadButton, "pressed" | "value">[];
  readonly axes: readonly number[];
}

/** How far each button, trigger and stick is pressed. */
export interface PadState {
  readonly buttons: { readonly [Button in PadButton]: number };
  readonly axes: { readonly [Axis in PadAxis]: number };
}

/** A stick's position beyond its round dead zone and within the unit circle: [x, y], rounded to thousandths. */
export function stick(x = 0, y = 0): [x: number, y: number] {
  const length = Math.hypot(x, y);
  if (!(length > DEAD_ZONE)) return [0, 0];
  const scale = Math.min(1, (length - DEAD_ZONE) / (1 - DEAD_ZONE)) / length;
  return [thousandths(x * scale), thousandths(y * scale)];
}

/** The state of the browser's `Gamepad`: {buttons: {a: 0 … 1}, axes: {left_x, left_y, right_x, right_y, lt, rt}}. */
export function readPad(pad: RawPad): PadState {
  const value = ({ pressed, value = 0 }: Partial<GamepadButton> = {}): number =>
    value > TRIGGER_REST ? thousandths(value) : Number(Boolean(pressed));
  const buttons = Object.fromEntries(PAD_BUTTONS.map((name, i) => [name, value(pad.buttons[i])])) as PadState["buttons"];
  const [left_x, left_y] = stick(pad.axes[0], pad.axes[1]);
  const [right_x, right_y] = stick(pad.axes[2], pad.axes[3]);
  return { buttons, axes: { left_x, left_y, right_x, right_y, lt: buttons.lt, rt: buttons.rt } };
}

/** No button pressed, the sticks in the middle. */
export const NEUTRAL: PadState = readPad({ buttons: [], axes: [] });

/** A button is pressed from half of its travel on, until it is back at a third. */
export function isPressed(value: number, before: boolean): boolean {
  return value > (before ? 1 / 3 : 1 / 2);
}

/** A gamepad's name without the numbers that browsers put around it. */
export function padName(id: string): string {
  return id.replace(/\s*\([^()]*Vendor: .*$/, "").replace(/^[0-9a-f]{1,4}-[0-9a-f]{1,4}-/i, "") || id;
}

const thousandths = (value: number): number => Math.round(value * 1000) / 1000 || 0; // no "-0"

/** The data of `gamepad_axes`. */
type AxesData = { readonly [Axis in PadAxis]?: number };

/** A button of the gamepad and what it presses. */
export interface PadPress {
  readonly button: PadButton;
  readonly mode: PressMode;
  readonly press: Press;
}

export class GamepadBinding {
  #buttons: readonly PadPress[];
  #axes: PadAxesCommand | null;
  #sentAxes = "";
  #axesSender: Coalescer<AxesData> | null;
  #repeatAt = new Map<Press, number>();
  #pollRequest = 0; // 0: none
  #seen: (pad: Gamepad | null) => void;
  #stop = new AbortController();

  /** `seen` gets the connected gamepad, or null, whenever it is read. Listens until `close`. */
  constructor(
    buttons: readonly PadPress[],
    axes: PadAxesCommand | null,
    send: SendCommand,
    seen: (pad: Gamepad | null) => void = () => {},
  ) {
    this.#buttons = buttons;
    this.#seen = seen;
    const sent = sending(send);
    this.#axes = axes;
    this.#axesSender = axes && new Coalescer((data: AxesData) => sent(axes.name, { ...data }));
    if (buttons.length === 0 && axes === null) return;
    this.#sentAxes = JSON.stringify(this.#axesFor(NEUTRAL));
    const until = { signal: this.#stop.signal };
    window.addEventListener("gamepadconnected", () => this.#poll(), until);
    window.addEventListener("gamepaddisconnected", () => this.#poll(), until);
    document.addEventListener("visibilitychange", () => this.#poll(), until);
    this.#poll();
  }

  /** Releases all buttons and sticks. */
  release(): void {
    this.#apply(NEUTRAL, performance.now());
  }

  /** Ends with the session: releases all buttons without sending. */
  close(): void {
    this.#stop.abort();
    cancelAnimationFrame(this.#pollRequest);
    for (const { press } of this.#buttons) press.close();
  }

  /** Reads the gamepad once, and schedules the next read if a gamepad is connected and the page is visible. */
  #poll(): void {
    cancelAnimationFrame(this.#pollRequest);
    const pad = [...(navigator.getGamepads?.() ?? [])].find((candidate) => candidate?.connected);
    this.#seen(pad ?? null);
    const seen = pad && !document.hidden;
    this.#apply(seen ? readPad(pad) : NEUTRAL, performance.now());
    if (seen) this.#pollRequest = requestAnimationFrame(() => this.#poll());
  }

  #apply({ buttons, axes }: PadState, now: number): void {
    for (const { button, mode, press } of this.#buttons) this.#updateButton(press, mode, buttons[button], now);
    const wanted = this.#axesFor({ axes });
    if (wanted === null) return;
    if (JSON.stringify(wanted) === this.#sentAxes) return;
    this.#sentAxes = JSON.stringify(wanted);
    this.#axesSender?.push(wanted);
  }

  #updateButton(press: Press, mode: PressMode, value: number, now: number): void {
    const next = this.#repeatAt.get(press);
    if (mode === "value" ? value === 0 : !isPressed(value, next !== undefined)) {
      if (this.#repeatAt.delete(press)) press.release(this);
    } else if (next === undefined || mode === "value") {
      this.#repeatAt.set(press, now + REPEAT.after);
      press.press(this, value);
    } else if (now >= next) {
      this.#repeatAt.set(press, now + REPEAT.every);
      press.repeat();
    }
  }

  #axesFor({ axes }: Pick<PadState, "axes">): AxesData | null {
    return this.#axes && Object.fromEntries(this.#axes.fields.map((name) => [name, axes[name]]));
  }
}
