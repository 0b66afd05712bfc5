/** The widgets that an author may choose for a value. Loaded for a model that has one; until then, and without it, its plain control works. */
import type { Field } from "../src/controls.ts";
import { element, loadStyle } from "./dom.ts";
import { fillIn, WIDGETS } from "./strings.ts";

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

const COLOR = /^#[0-9a-f]{6}$/i;
const MOST_SEED = 2 ** 32 - 1;
const LINES = 4;

/** Adds the widget to the plain control of the field, and returns what shows a value that the control has got. */
export function addWidget(widget: string, field: Field, control: Control): () => void {
  void loadStyle("later.css");
  if (widget === "textarea" && control instanceof HTMLTextAreaElement) control.rows = LINES;
  if (widget === "radio" && control instanceof HTMLSelectElement) return radio(field, control);
  if (widget === "color" && control instanceof HTMLInputElement) return color(field, control);
  if (widget === "seed" && control instanceof HTMLInputElement) seed(field, control);
  return () => {};
}

/** Gives the plain control a value, as if the user typed it. */
function give(control: Control, value: string | number): void {
  control.value = String(value);
  control.dispatchEvent(new Event("input"));
  control.dispatchEvent(new Event("change"));
}

function beside(control: Control, other: HTMLElement): void {
  const row = element("div", { class: "beside" });
  control.replaceWith(row);
  row.append(other, control);
}

function radio({ title }: Field, list: HTMLSelectElement): () => void {
  const choices = [...list.options].filter((option) => !option.hidden);
  const buttons = choices.map((option) => {
    const button = element("input", { type: "radio", name: `${list.id}-choice`, value: option.value });
    button.addEventListener("change", () => {
      list.selectedIndex = option.index;
      list.dispatchEvent(new Event("change"));
    });
    return button;
  });
  const labels = buttons.map((button, i) => element("label", {}, button, element("span", {}, choices[i]?.text ?? "")));
  const about = list.getAttribute("aria-describedby");
  list.before(element("div", { class: "choices", role: "radiogroup", "aria-label": title, "aria-describedby": about }, ...labels));
  list.hidden = true;
  return () => {
    buttons.forEach((button, i) => {
      button.checked = i === list.selectedIndex;
    });
  };
}

function color({ title }: Field, text: HTMLInputElement): () => void {
  const swatch = element("input", { type: "color", "aria-label": fillIn(WIDGETS.color, { title }) });
  swatch.addEventListener("input", () => give(text, swatch.value));
  beside(text, swatch);
  const show = (): void => {
    if (COLOR.test(text.value)) swatch.value = text.value;
  };
  text.addEventListener("input", show);
  return show;
}

function seed(field: Field, number: HTMLInputElement): void {
  const { minimum = 0, maximum = Math.max(minimum, MOST_SEED) } = field.kind === "number" ? field : {};
  const words = fillIn(WIDGETS.seed, { title: field.title });
  const draw = element("button", { type: "button", class: "draw", title: words, "aria-label": words }, "⚄");
  draw.addEventListener("click", () => {
    const [drawn = 0] = crypto.getRandomValues(new Uint32Array(1));
    give(number, minimum + Math.floor((drawn / 2 ** 32) * (maximum - minimum + 1)));
  });
  beside(number, draw);
}
