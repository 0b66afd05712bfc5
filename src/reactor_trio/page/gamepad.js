/**
 * Binds the commands `gamepad_<button>` and `gamepad_axes` to the first connected gamepad, with the names of the standard
 * mapping. Browsers have no events for gamepad buttons, so the page reads the gamepad in each animation frame while one is
 * connected and the page is visible. When the page is hidden or the gamepad is unplugged, it releases everything.
 *
 * A held button repeats a plain command as a keyboard would. Sticks have a dead zone. The axes' command is sent when a
 * value has changed, one message at a time, the newest last.
 */
import { Coalescer } from "./coalesce.js";
import { element, refusalLine } from "./dom.js";
import { PressCommand, legendButtons, legendNotes } from "./press-command.js";
import { PAD_BUTTONS } from "./schema.js";

export const DEAD_ZONE = 0.12;
const TRIGGER_REST = 0.04;
const REPEAT_AFTER = 500;
const REPEAT_EVERY = 33;
const LABELS = { up: "↑", down: "↓", left: "←", right: "→", back: "Back", start: "Start", home: "Home" };

/** A stick's position beyond its round dead zone and within the unit circle: [x, y], rounded to thousandths. */
export function stick(x = 0, y = 0) {
  const length = Math.hypot(x, y);
  if (!(length > DEAD_ZONE)) return [0, 0];
  const scale = Math.min(1, (length - DEAD_ZONE) / (1 - DEAD_ZONE)) / length;
  return [thousandths(x * scale), thousandths(y * scale)];
}

/** The state of the browser's `Gamepad`: {buttons: {a: 0 … 1}, axes: {left_x, left_y, right_x, right_y, lt, rt}}. */
export function readPad(pad) {
  const value = ({ pressed, value = 0 } = {}) => (value > TRIGGER_REST ? thousandths(value) : Number(Boolean(pressed)));
  const buttons = Object.fromEntries(PAD_BUTTONS.map((name, i) => [name, value(pad.buttons[i])]));
  const [left_x, left_y] = stick(pad.axes[0], pad.axes[1]);
  const [right_x, right_y] = stick(pad.axes[2], pad.axes[3]);
  return { buttons, axes: { left_x, left_y, right_x, right_y, lt: buttons.lt, rt: buttons.rt } };
}

/** No button pressed, the sticks in the middle. */
export const NEUTRAL = readPad({ buttons: [], axes: [] });

/** A button is pressed from half of its travel on, until it is back at a third. */
export function isPressed(value, before) {
  return value > (before ? 1 / 3 : 1 / 2);
}

/** A gamepad's name without the numbers that browsers put around it. */
export function padName(id) {
  return id.replace(/\s*\([^()]*Vendor: .*$/, "").replace(/^[0-9a-f]{1,4}-[0-9a-f]{1,4}-/i, "") || id;
}

const thousandths = (value) => Math.round(value * 1000) / 1000 || 0; // no "-0"

export class Gamepads {
  #buttons;
  #axes;
  #sentAxes = "";
  #axesSender;
  #repeatAt = new Map();
  #pollRequest = null;
  #status = element("p", { class: "description", "data-gamepad": "none" });
  #refusal = refusalLine();
  #stop = new AbortController();

  /** {buttons, axes} are as `readCommands` returns them. Listens until `close`. */
  constructor({ buttons, axes }, send) {
    this.#buttons = buttons.map(({ name, button, mode, description }) => {
      const sign = LABELS[button] ?? button.toUpperCase();
      const label = description || `gamepad ${button}`;
      const press = new PressCommand({ name, mode }, send, this.#refusal, sign, { "data-button": button, "aria-label": label });
      return { button, mode, sign, description, press };
    });
    this.#axes = axes;
    this.#axesSender = new Coalescer((data) => this.#refusal.follow(send(axes.name, data)));
    if (buttons.length === 0 && axes === null) return;
    this.#sentAxes = JSON.stringify(this.#axesFor(NEUTRAL));
    const until = { signal: this.#stop.signal };
    window.addEventListener("gamepadconnected", () => this.#poll(), until);
    window.addEventListener("gamepaddisconnected", () => this.#poll(), until);
    document.addEventListener("visibilitychange", () => this.#poll(), until);
    this.#poll();
  }

  close() {
    this.#stop.abort();
    cancelAnimationFrame(this.#pollRequest);
    for (const { press } of this.#buttons) press.close();
  }

  legend() {
    const lines = this.#buttons.map(({ sign, description }) => [sign, description]);
    if (this.#axes) lines.push(["Sticks", this.#axes.description || this.#axes.fields.join(", ")]);
    return [
      this.#status,
      legendButtons(this.#buttons.map(({ button, press }) => [button, press])),
      legendNotes(lines),
      this.#refusal.element,
    ];
  }

  /** Reads the gamepad once, and schedules the next read if a gamepad is connected and the page is visible. */
  #poll() {
    cancelAnimationFrame(this.#pollRequest);
    const pad = [...(navigator.getGamepads?.() ?? [])].find((candidate) => candidate?.connected);
    this.#showStatus(pad);
    const seen = pad && !document.hidden;
    this.#apply(seen ? readPad(pad) : NEUTRAL, performance.now());
    if (seen) this.#pollRequest = requestAnimationFrame(() => this.#poll());
  }

  #apply({ buttons, axes }, now) {
    for (const { button, mode, press } of this.#buttons) this.#updateButton(press, mode, buttons[button], now);
    if (this.#axes === null) return;
    const wanted = this.#axesFor({ axes });
    if (JSON.stringify(wanted) === this.#sentAxes) return;
    this.#sentAxes = JSON.stringify(wanted);
    this.#axesSender.push(wanted);
  }

  #updateButton(press, mode, value, now) {
    const next = this.#repeatAt.get(press);
    if (mode === "value" ? value === 0 : !isPressed(value, next !== undefined)) {
      if (this.#repeatAt.delete(press)) press.release(this);
    } else if (next === undefined || mode === "value") {
      this.#repeatAt.set(press, now + REPEAT_AFTER);
      press.press(this, value);
    } else if (now >= next) {
      this.#repeatAt.set(press, now + REPEAT_EVERY);
      press.repeat();
    }
  }

  #axesFor({ axes }) {
    return this.#axes && Object.fromEntries(this.#axes.fields.map((name) => [name, axes[name]]));
  }

  #showStatus(pad) {
    const state = pad ? "connected" : "none";
    if (this.#status.textContent && this.#status.dataset.gamepad === state) return;
    this.#status.dataset.gamepad = state;
    if (!navigator.getGamepads) this.#status.textContent = "This browser gives gamepads only to pages of https and of localhost.";
    else if (!pad) this.#status.textContent = "Press a button of a gamepad to connect it.";
    else this.#status.textContent = `${padName(pad.id)}${pad.mapping === "standard" ? "" : ": its layout is unknown, buttons may be in other places"}`;
  }
}
