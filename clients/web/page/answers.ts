/**
 * What a control shows of the model's answer: that a text is not sent yet, and that the model has what the user gave. Loaded with the first
 * setting that is a text, or with the first answer to an action.
 */
import { element } from "./dom.ts";
import { ANSWERS } from "./strings.ts";

const SHOWN_FOR = 1500;

/** A line whose text is gone after a while. */
class Passing {
  readonly element: HTMLElement;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #over: () => void;

  constructor(kind: "answered" | "unseen", over: () => void = () => {}) {
    this.element = element("span", { class: kind, role: "status" });
    this.#over = over;
  }

  show(words: string): void {
    this.hide();
    this.element.textContent = words;
    this.#timer = setTimeout(() => {
      this.hide();
      this.#over();
    }, SHOWN_FOR);
  }

  hide(): void {
    clearTimeout(this.#timer);
    this.element.textContent = "";
  }
}

/** The corner of a field of text: a button while the text differs from what was given, and a tick once the model has it. */
export class TextAnswer {
  #control: HTMLInputElement | HTMLTextAreaElement;
  #apply: HTMLButtonElement;
  #applied = new Passing("answered");
  #given: () => unknown;

  /** `field` is the form field; `given` tells the value that was given last. */
  constructor(field: HTMLElement, given: () => unknown) {
    const control = field.querySelector<HTMLInputElement | HTMLTextAreaElement>("textarea, input");
    if (control === null) throw new TypeError("a field of text has a control");
    this.#control = control;
    this.#given = given;
    this.#apply = element(
      "button",
      { type: "button", class: "primary", hidden: true },
      ANSWERS.apply,
      element("span", { "aria-hidden": "true" }, "↵"),
    );
    this.#apply.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.#apply.addEventListener("click", () => control.dispatchEvent(new Event("change", { bubbles: true })));
    control.addEventListener("input", () => this.look());
    control.after(element("div", { class: "corner" }, this.#apply, this.#applied.element));
    this.look();
  }

  /** The text or what was given is another one. */
  look(): void {
    const unsent = this.#control.value !== String(this.#given() ?? "");
    this.#control.classList.toggle("unsent", unsent);
    this.#apply.hidden = !unsent;
    if (unsent) this.#applied.hide();
  }

  /** The model has the text. */
  done(): void {
    if (this.#apply.hidden) this.#applied.show(ANSWERS.applied);
  }
}

const ticks = new WeakMap<HTMLElement, Passing>();

/** Shows a tick on the button of an action that the model has answered. */
export function tick(button: HTMLElement): void {
  const told = ticks.get(button) ?? new Passing("unseen", () => button.classList.remove("done"));
  if (!ticks.has(button)) button.after(told.element);
  ticks.set(button, told);
  button.classList.add("done");
  requestAnimationFrame(() => told.show(ANSWERS.done)); // a screen reader reads what changes in a line that is there
}
