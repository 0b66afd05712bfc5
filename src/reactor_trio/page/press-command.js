/**
 * A command that is pressed and released: by a key, by a button of a gamepad, or by its own button in a legend. Each press
 * and release names its source. The command is held as long as at least one source holds it.
 *
 * A plain command is sent at each press, and again while it is held and the one before is answered. A command with a boolean
 * `down` is sent once with true and once with false. A command with a number `value` is sent with how far it is pressed, 0 to 1.
 * All presses and releases are sent at once and in order; of the values between two of them only the newest.
 */
import { Coalescer } from "./coalesce.js";
import { element } from "./dom.js";

const presses = new WeakMap(); // by their buttons

export class PressCommand {
  #mode;
  #sender;
  #sources = new Map();
  #fingers = new Map(); // by pointer id: the command that a finger now presses which began on this button
  #sentValue = 0;
  button;

  /**
   * `command` is {name, mode}, with mode "plain", "down" or "value"; `send(name, data)` the session's `command`; `attributes`
   * and `label` those of the legend's button; `refusal` the line that shows a refusal.
   */
  constructor({ name, mode }, send, refusal, label, attributes) {
    this.#mode = mode;
    this.#sender = new Coalescer((data) => refusal.follow(send(name, data)));
    this.button = element("button", { type: "button", class: "key", "data-command": name, ...attributes }, label);
    presses.set(this.button, this);
    this.#listen(this.button);
  }

  get held() {
    return this.#sources.size > 0;
  }

  isHeldBy(source) {
    return this.#sources.has(source);
  }

  /** `source` presses the command by `value` (0 to 1). Call it again when the value changes. */
  press(source, value = 1) {
    const began = !this.held;
    this.#sources.set(source, value);
    this.button.classList.add("held");
    if (this.#mode === "value") this.#sendValue();
    else if (this.#mode === "plain") this.#sender.sendNow({});
    else if (began) this.#sender.sendNow({ down: true });
  }

  /** Sends a held plain command again, unless the one before has no answer yet. */
  repeat() {
    if (this.#mode === "plain" && !this.#sender.busy) this.#sender.push({});
  }

  release(source) {
    if (!this.#sources.delete(source)) return;
    if (this.#mode === "value") this.#sendValue();
    if (this.held) return;
    this.button.classList.remove("held");
    if (this.#mode === "down") this.#sender.sendNow({ down: false });
  }

  releaseAll() {
    for (const source of [...this.#sources.keys()]) this.release(source);
  }

  /** Ends with the session: releases all sources without sending. */
  close() {
    this.#sources.clear();
    this.button.classList.remove("held");
  }

  #sendValue() {
    const value = Math.max(0, ...this.#sources.values());
    const before = this.#sentValue;
    if (value === before) return;
    this.#sentValue = value;
    if (value === 0 || before === 0) this.#sender.sendNow({ value });
    else this.#sender.push({ value });
  }

  #listen(button) {
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      button.setPointerCapture(event.pointerId); // this button gets the pointer's events wherever it goes
      this.#moveFinger(event.pointerId, null); // releases the finger first, if the browser has not reported that it was lifted
      this.#moveFinger(event.pointerId, this);
    });
    button.addEventListener("pointermove", ({ pointerId, clientX, clientY }) => {
      const under = presses.get(document.elementFromPoint(clientX, clientY)?.closest(".key"));
      // A command that was released meanwhile (hidden page, end of the session) stays released until the next press.
      if (under && this.#fingers.get(pointerId)?.isHeldBy(pointerId)) this.#moveFinger(pointerId, under);
    });
    for (const end of ["pointerup", "pointercancel"]) button.addEventListener(end, ({ pointerId }) => this.#moveFinger(pointerId, null));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    // A click without a pointer comes from a screen reader or from Space on the focused button.
    button.addEventListener("click", ({ detail }) => {
      if (detail !== 0) return;
      this.press(button);
      this.release(button);
    });
  }

  /** The finger releases its command and presses `next`, the same or another command, or null. */
  #moveFinger(finger, next) {
    const before = this.#fingers.get(finger);
    if (next === before) return;
    before?.release(finger);
    next?.press(finger);
    if (next) this.#fingers.set(finger, next);
    else this.#fingers.delete(finger);
  }
}

const CROSSES = [["w", "a", "s", "d"], ["up", "left", "down", "right"]];

/** A legend's buttons; `presses` are by name, and those of a whole cross lie in their places. */
export function legendButtons(presses) {
  const left = new Map(presses);
  const groups = [];
  for (const cross of CROSSES) {
    if (!cross.every((name) => left.has(name))) continue;
    groups.push(element("div", { class: "cross" }, ...cross.map((name) => left.get(name).button)));
    cross.forEach((name) => left.delete(name));
  }
  if (left.size) groups.push(element("div", { class: "row" }, ...[...left.values()].map(({ button }) => button)));
  return groups.length ? element("div", { class: "keys" }, ...groups) : null;
}

/** A legend's list of what the described ones do: `labels` are pairs of a label and a description. */
export function legendNotes(labels) {
  const lines = labels.filter(([, description]) => description);
  return lines.length ? element("ul", { class: "notes" }, ...lines.map(([label, text]) => element("li", {}, element("kbd", {}, label), ` ${text}`))) : null;
}
