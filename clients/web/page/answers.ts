/**
 * What a control shows of the model's answer: that a text is not sent yet, and that the model has what the user gave. Loaded with the first
 * setting that is a text, or with the first answer to an action.
 */
import { type Field, humanize } from "../src/controls.ts";
import { element, type RefusalLine, within } from "./dom.ts";
import { brokenLimit, lengthOf } from "./limits.ts";
import { ANSWERS, number } from "./strings.ts";

const SHOWN_FOR = 1500;
/** The part of a text's longest length from which on the length is shown. */
const NEAR = 0.9;

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

/**
 * The corner of a field of text: a button while the text differs from what was given, and a tick once the model has it. Beside the label stands
 * the length of a text that is nearly too long.
 */
export class TextAnswer {
  #control: HTMLInputElement | HTMLTextAreaElement;
  #apply: HTMLButtonElement;
  #applied = new Passing("answered");
  #count = element("span", { class: "count" });
  #field: Field;
  #given: () => unknown;
  #refusal: RefusalLine;

  /** `view` shows the field; `given` tells the value that was given last. */
  constructor(view: HTMLElement, field: Field, given: () => unknown, refusal: RefusalLine) {
    const control = view.querySelector<HTMLInputElement | HTMLTextAreaElement>("textarea, input");
    if (control === null) throw new TypeError("a field of text has a control");
    this.#control = control;
    this.#field = field;
    this.#given = given;
    this.#refusal = refusal;
    control.removeAttribute("maxlength"); // which cuts what is pasted without a word, and counts other characters than the server
    within(view, "label").after(this.#count);
    this.#apply = element(
      "button",
      { type: "button", class: "primary", hidden: true },
      ANSWERS.apply,
      element("span", { "aria-hidden": "true" }, "↵"),
    );
    this.#apply.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    this.#apply.addEventListener("click", () => control.dispatchEvent(new Event("change", { bubbles: true })));
    control.addEventListener("input", () => {
      if (this.#fault(control.value) === null) refusal.hide();
      this.look();
    });
    control.after(element("div", { class: "corner" }, this.#apply, this.#applied.element));
    this.look();
  }

  /** The text or what was given is another one. */
  look(): void {
    const unsent = this.#control.value !== String(this.#given() ?? "");
    this.#control.classList.toggle("unsent", unsent);
    this.#apply.hidden = !unsent;
    this.#apply.disabled = this.#fault(this.#control.value) !== null;
    if (unsent) this.#applied.hide();
    const limit = (this.#field.kind === "text" && this.#field.maxLength) || Infinity;
    const n = lengthOf(this.#control.value);
    this.#count.textContent = n >= limit * NEAR ? `${number(n)} / ${number(limit)}` : "";
    this.#count.classList.toggle("over", n > limit);
  }

  #fault(value: unknown): string | null {
    return brokenLimit(this.#field, value);
  }

  /** Whether the value can never be valid; then the line of refusals says why. */
  refuse(value: unknown): boolean {
    const fault = this.#fault(value);
    if (fault !== null) this.#refusal.show(new Error(fault));
    return fault !== null;
  }

  /** The model has the text. */
  done(): void {
    if (this.#apply.hidden) this.#applied.show(ANSWERS.applied);
  }
}

/** What an action's button shows of the answers. */
class ActionAnswer {
  #button: HTMLElement;
  #tick: Passing;
  /** The reply of the model, until the next press. */
  #reply = element("p", { dir: "auto", class: "reply", "aria-live": "polite" });

  constructor(button: HTMLElement) {
    this.#button = button;
    this.#tick = new Passing("unseen", () => button.classList.remove("done"));
    button.after(this.#tick.element, this.#reply);
    button.closest("form")?.addEventListener("submit", () => this.#show(null));
    this.#show(null);
  }

  show(reply: unknown): void {
    this.#button.classList.add("done");
    // A screen reader reads what changes in a line that is there.
    requestAnimationFrame(() => this.#tick.show(ANSWERS.done));
    if (reply !== undefined && reply !== null) this.#show(reply);
  }

  #show(reply: unknown): void {
    const words = reply === null ? [] : describeReply(reply);
    this.#reply.replaceChildren(...words.flatMap((each) => [element("bdi", {}, ...each), " "]));
    this.#reply.hidden = words.length === 0;
  }
}

const answers = new WeakMap<HTMLElement, ActionAnswer>();

/** Shows on the button of an action that the model has answered, and the reply under it. */
export function tick(button: HTMLElement, reply: unknown): void {
  const answer = answers.get(button) ?? new ActionAnswer(button);
  answers.set(button, answer);
  answer.show(reply);
}

/** Each field of a reply as its title and its value; a reply that has no fields is one value. */
function describeReply(reply: unknown): (string | Node)[][] {
  if (typeof reply !== "object" || reply === null || Array.isArray(reply)) return [[plain(reply)]];
  return Object.entries(reply)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [element("span", { class: "title" }, humanize(name)), " ", plain(value)]);
}

const plain = (value: unknown): string => {
  if (typeof value === "string") return value;
  if (typeof value === "number") return number(value, 0, 3);
  return Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.map(plain).join(", ") : JSON.stringify(value);
};
