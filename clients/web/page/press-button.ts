/** Buttons that press commands, and the legends that they lie in. */
import type { PressMode, SendCommand } from "../src/controls.ts";
import { Press, wholeCrosses } from "../src/controls.ts";
import { element } from "./dom.ts";

const presses = new WeakMap<Element, PressButton>(); // by their buttons

/** A button of a legend. A finger that slides from one to another releases and presses. */
export class PressButton {
  readonly press: Press;
  readonly button: HTMLButtonElement;
  #fingers = new Map<number, PressButton>(); // by pointer id: the button that a finger now presses which began on this one

  /** `command` is {name, mode}; `label` and `attributes` are those of the button. */
  constructor(
    command: { readonly name: string; readonly mode: PressMode },
    send: SendCommand,
    label: string,
    attributes: { readonly [name: string]: string },
  ) {
    this.press = new Press(command, send);
    this.button = element("button", { type: "button", class: "key", "data-command": command.name, ...attributes }, label);
    this.press.changed = (held) => this.button.classList.toggle("held", held);
    presses.set(this.button, this);
    this.#listen(this.button);
  }

  #listen(button: HTMLButtonElement): void {
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      button.setPointerCapture(event.pointerId); // this button gets the pointer's events wherever it goes
      this.#moveFinger(event.pointerId, null); // releases the finger first, if the browser has not reported that it was lifted
      this.#moveFinger(event.pointerId, this);
    });
    button.addEventListener("pointermove", ({ pointerId, clientX, clientY }) => {
      const key = document.elementFromPoint(clientX, clientY)?.closest(".key");
      const under = key ? presses.get(key) : undefined;
      // A command that was released meanwhile (hidden page, end of the session) stays released until the next press.
      if (under && this.#fingers.get(pointerId)?.press.isHeldBy(pointerId)) this.#moveFinger(pointerId, under);
    });
    for (const end of ["pointerup", "pointercancel"] as const)
      button.addEventListener(end, ({ pointerId }) => this.#moveFinger(pointerId, null));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
    // A click without a pointer comes from a screen reader or from Space on the focused button.
    button.addEventListener("click", ({ detail }) => {
      if (detail !== 0) return;
      this.press.press(button);
      this.press.release(button);
    });
  }

  /** The finger releases its command and presses `next`, the same or another command, or null. */
  #moveFinger(finger: number, next: PressButton | null): void {
    const before = this.#fingers.get(finger);
    if (next === before) return;
    before?.press.release(finger);
    next?.press.press(finger);
    if (next) this.#fingers.set(finger, next);
    else this.#fingers.delete(finger);
  }
}

/** A legend's buttons; `presses` are by name, and those of a whole cross lie in their places. */
export function legendButtons(presses: Iterable<readonly [name: string, press: Pick<PressButton, "button">]>): HTMLElement | null {
  const left = new Map(presses);
  const groups: HTMLElement[] = [];
  for (const cross of wholeCrosses(left.keys())) {
    const whole = cross.flatMap((name) => left.get(name) ?? []);
    groups.push(element("div", { class: "cross" }, ...whole.map(({ button }) => button)));
    cross.forEach((name) => left.delete(name));
  }
  if (left.size) groups.push(element("div", { class: "row" }, ...[...left.values()].map(({ button }) => button)));
  return groups.length ? element("div", { class: "keys" }, ...groups) : null;
}

/** A legend's list of what the described ones do: `labels` are pairs of a label and a description. */
export function legendNotes(labels: readonly (readonly [label: string, description: string])[]): HTMLElement | null {
  const lines = labels.filter(([, description]) => description);
  return lines.length
    ? element("ul", { class: "notes" }, ...lines.map(([label, text]) => element("li", {}, element("kbd", {}, label), ` ${text}`)))
    : null;
}
