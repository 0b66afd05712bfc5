/**
 * One property of a command as a form field. Each field has
 *
 *   element            label, input, description
 *   read()             returns the current value; throws an Error with a readable message if it is not valid
 *   write(value)       shows a value; undefined shows that there is no value yet
 *   empty              whether the user has cleared the field
 *   touched            whether the user has changed the field
 *   editing            whether the user is changing the field: holds a slider, or has typed without committing
 *   onchange           called when the user commits a value: while a slider moves, or when a text is complete
 *   onleft             called when the user stops changing the field
 *
 * A nullable field has a "none" button next to its label, which makes the value null until the user commits another one. A
 * cleared field of a number or of JSON is null too.
 */
import {
  type Field,
  humanize,
  type JsonField,
  type NumberField,
  type SelectField,
  type SliderField,
  type TextField,
} from "../src/controls.ts";
import { element } from "./dom.ts";
import type { Presentation } from "./presented.ts";
import type { Scrubbed } from "./scrub.ts";
import { settled } from "./settled.ts";
import { fillIn, number as formatted, STRINGS } from "./strings.ts";
import type { Uploads } from "./uploads.ts";
import { uploadInput } from "./uploads.ts";

/** A form field, as above. */
export interface FieldView {
  readonly element: HTMLElement;
  readonly empty: boolean;
  touched: boolean;
  readonly editing: boolean;
  onchange: () => void;
  onleft: () => void;
  read(): unknown;
  write(value: unknown): void;
}

/** What differs between the kinds of fields. */
export interface FieldInput {
  /** The form control, which the label names. */
  readonly control: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;
  /** What is shown, if it is not the control alone. */
  readonly element?: HTMLElement;
  /** A second control, next to the label. */
  readonly readout?: HTMLElement;
  busy?(): boolean;
  empty?(): boolean;
  read(): unknown;
  write(value: unknown): void;
  /** How a drag of the label changes the number; other fields have none. */
  readonly scrubbed?: Pick<Scrubbed, "value" | "step" | "minimum" | "maximum">;
  /** Shows that the value is null, or no longer null. */
  showNull?(yes: boolean): void;
  /** Calls `changed` with true when the user commits a value, and with false while the user types one. */
  listen(changed: Changed): void;
}

type Changed = (given: boolean) => void;

let count = 0;

/** `uploads` sends files; `hint` has the unit behind a number, and a widget; `reset` is the button beside the label. */
export function createField(
  field: Field,
  uploads: Uploads,
  { hint: { unit = null, widget } = {}, reset = null }: { readonly hint?: Presentation; readonly reset?: HTMLElement | null } = {},
): FieldView {
  const id = `field-${++count}`;
  const input = createInput(field, id, uploads);
  const none = field.nullable
    ? element(
        "button",
        { type: "button", class: "none", "aria-pressed": "false", "aria-label": `${field.title}: ${STRINGS.settings.none}` },
        STRINGS.settings.none,
      )
    : null;
  const hint = field.description ? element("p", { dir: "auto", class: "description", id: `${id}-hint` }, field.description) : null;
  if (hint) input.control.setAttribute("aria-describedby", hint.id);
  input.control.name = field.name;
  const label = element("label", { dir: "auto", for: id }, field.title);
  const body = element(
    "div",
    { class: `field ${field.kind}` },
    element(
      "div",
      { class: "head" },
      label,
      reset,
      unit === null ? (input.readout ?? null) : element("bdi", {}, input.readout ?? null, element("span", { class: "unit" }, unit)),
      none,
    ),
    input.element ?? input.control,
    field.kind === "slider" ? ends(field, unit) : null,
    hint,
  );
  if (input.scrubbed && field.title.length < 3 && !hint) body.classList.add("short");

  let isNull = false;
  let changing = false;
  const showNull = (yes: boolean): void => {
    isNull = yes;
    none?.setAttribute("aria-pressed", String(yes));
    body.classList.toggle("is-null", yes);
    input.showNull?.(yes);
  };
  const self: FieldView = {
    element: body,
    touched: false,
    get editing() {
      return changing || Boolean(input.busy?.());
    },
    onchange: () => {},
    onleft: () => {},
    get empty() {
      return Boolean(input.empty?.());
    },
    read: () => (isNull ? null : input.read()),
    write(value) {
      showNull(field.nullable && value === null);
      if (!isNull) input.write(value);
      self.touched = false;
      showInWidget();
    },
  };
  let showInWidget = (): void => {};
  if (widget)
    void import("./widgets.ts").then(({ addWidget }) => {
      showInWidget = addWidget(widget, field, input.control);
      showInWidget();
    });
  input.listen((given) => {
    self.touched = true;
    const nothing = given && field.nullable && self.empty;
    if (isNull !== nothing) showNull(nothing);
    if (given) {
      changing = false;
      self.onchange();
    }
  });
  const leave = (): void => {
    if (!changing) return;
    changing = false;
    self.onleft();
  };
  const { scrubbed } = input;
  if (scrubbed)
    settled
      .then(() => import("./scrub.ts"))
      .then(
        ({ scrub }) =>
          scrub(label, {
            ...scrubbed,
            changed(value) {
              changing = true;
              self.touched = true;
              if (isNull) showNull(false);
              input.write(value);
              self.onchange();
              changing = true; // until the drag is over, no value of the model moves the control
            },
            ended: leave,
          }),
        () => {}, // the control itself changes the number, too
      );
  body.addEventListener("input", () => {
    changing = true;
  }); // also while a slider is held, after its value was committed
  body.addEventListener("change", leave);
  body.addEventListener("focusout", leave);
  none?.addEventListener("click", () => {
    self.touched = true;
    showNull(true);
    self.onchange();
  });
  return self;
}

function createInput(field: Field, id: string, uploads: Uploads): FieldInput {
  switch (field.kind) {
    case "slider":
      return slider(field, id);
    case "number":
      return number(field, id);
    case "text":
      return text(field, id);
    case "select":
      return select(field, id);
    case "checkbox":
      return checkbox(id);
    case "json":
      return json(field, id);
    case "upload":
      return uploadInput(field, id, uploads);
  }
}

/** What the ends of a slider stand for. Screen readers say it with the slider. */
const ends = ({ minimum, maximum }: SliderField, unit: string | null): HTMLElement =>
  element(
    "div",
    { class: "ends", "aria-hidden": "true" },
    ...[minimum, maximum].map((end) => element("span", {}, [formatted(end, 0, 4), unit].filter(Boolean).join(" "))),
  );

function slider({ title, minimum, maximum, step, nullable }: SliderField, id: string): FieldInput {
  const bounds = { min: minimum, max: maximum, step };
  const control = element("input", { type: "range", id, ...bounds });
  const exact = element("input", {
    type: "number",
    class: "readout",
    ...bounds,
    step: "any",
    placeholder: nullable ? STRINGS.settings.none : null,
    "aria-label": fillIn(STRINGS.fields.exact, { title }),
  });
  let value: unknown;
  const set = (now: unknown): void => {
    value = now;
    // WebKit and Chromium have no style for the part of a slider left of its thumb; style.css reads this.
    const part = ((Number(now) - minimum) / (maximum - minimum)) * 100;
    control.style.setProperty("--part", `${Math.min(100, Math.max(0, part || 0)).toFixed(2)}%`);
  };
  return {
    control,
    readout: exact,
    scrubbed: { value: () => exact.valueAsNumber, step, minimum, maximum },
    empty: () => isBlank(exact),
    read() {
      if (value === undefined || Number.isNaN(value)) throw new Error(STRINGS.fields.number);
      return value;
    },
    write(now) {
      set(now);
      control.value = String(now ?? "");
      exact.value = String(now ?? "");
    },
    showNull(yes) {
      if (yes) exact.value = "";
    },
    listen(changed) {
      control.addEventListener("input", () => {
        set(control.valueAsNumber);
        exact.value = control.value;
        changed(true);
      });
      exact.addEventListener("change", () => {
        set(exact.valueAsNumber);
        if (!Number.isNaN(value)) control.value = String(value);
        changed(true);
      });
    },
  };
}

/** Whether the field of a number is empty. Text that is not a number has an empty `value` too. */
const isBlank = ({ value, validity }: HTMLInputElement): boolean => value === "" && !validity.badInput;

function number({ integer, minimum, maximum, step, nullable }: NumberField, id: string): FieldInput {
  const control = element("input", {
    type: "number",
    id,
    min: minimum,
    max: maximum,
    step: step ?? (integer ? 1 : "any"),
    inputmode: integer ? "numeric" : "decimal",
    placeholder: nullable ? STRINGS.settings.none : null,
  });
  return {
    control,
    scrubbed: { value: () => control.valueAsNumber, step: step ?? (integer ? 1 : 0.1), minimum, maximum },
    empty: () => isBlank(control),
    read() {
      if (Number.isNaN(control.valueAsNumber)) throw new Error(STRINGS.fields.number);
      return control.valueAsNumber;
    },
    write: (value) => {
      control.value = String(value ?? "");
    },
    showNull(yes) {
      if (yes) control.value = "";
    },
    listen(changed) {
      control.addEventListener("input", () => changed(false));
      control.addEventListener("change", () => changed(true));
    },
  };
}

function text({ maxLength, long }: TextField, id: string): FieldInput {
  const both = { dir: "auto", id, maxlength: maxLength, enterkeyhint: "send" };
  const control = long ? element("textarea", { ...both, rows: 1 }) : element("input", { ...both, type: "text", autocomplete: "off" });
  return {
    control,
    read: () => control.value,
    write: (value) => {
      control.value = String(value ?? "");
    },
    showNull(yes) {
      if (yes) control.value = "";
      control.placeholder = yes ? STRINGS.settings.none : ""; // unlike null, an empty text is a value
    },
    listen: (changed) => listenText(control, changed, (event) => !event.shiftKey),
  };
}

function json({ title }: JsonField, id: string): FieldInput {
  const control = element("textarea", {
    id,
    rows: 2,
    spellcheck: "false",
    class: "code",
    "aria-label": fillIn(STRINGS.fields.asJson, { title }),
  });
  return {
    control,
    empty: () => control.value.trim() === "",
    read() {
      try {
        return JSON.parse(control.value);
      } catch (error) {
        throw new Error(fillIn(STRINGS.fields.json, { why: (error as Error).message }));
      }
    },
    write: (value) => {
      control.value = value === undefined ? "" : JSON.stringify(value);
    },
    showNull(yes) {
      if (yes) control.value = "null";
    },
    listen: (changed) => listenText(control, changed, (event) => event.ctrlKey || event.metaKey),
  };
}

/** Commits a text when the user leaves the changed field, or presses Enter and `sends(event)` says that it is not a line break. */
function listenText(control: HTMLElement, changed: Changed, sends: (event: KeyboardEvent) => boolean): void {
  let given = false;
  control.addEventListener("input", () => {
    given = false;
    changed(false);
  });
  control.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !sends(event)) return;
    event.preventDefault();
    given = true;
    changed(true);
  });
  control.addEventListener("change", () => {
    if (!given) changed(true);
    given = true;
  });
}

/**
 * A choice in words. One that is written as a name in a program, in small letters and underscores alone, reads as the names of fields do; in
 * any other the author has chosen the letters.
 */
export const choiceWords = (choice: unknown): string =>
  typeof choice !== "string" ? JSON.stringify(choice) : /^[a-z][a-z_]*$/.test(choice) ? humanize(choice) : choice;

function select({ choices, nullable }: SelectField, id: string): FieldInput {
  const options = choices.map((choice, i) => element("option", { value: i }, choiceWords(choice)));
  // Shown while the value is none of the choices, or not known. It comes last, so that the others have the numbers of their choices.
  const unknown = element("option", { value: "", disabled: true, hidden: true }, STRINGS.fields.choose);
  const control = element("select", { id }, ...options, unknown);
  const find = (value: unknown): number => {
    const found = choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
    return found < 0 ? choices.length : found;
  };
  return {
    control,
    read() {
      if (control.selectedIndex === choices.length) throw new Error(STRINGS.fields.choice);
      return choices[control.selectedIndex];
    },
    write: (value) => {
      control.selectedIndex = find(value);
    },
    showNull(yes) {
      if (yes && nullable) control.selectedIndex = choices.length;
    },
    listen: (changed) => control.addEventListener("change", () => changed(true)),
  };
}

function checkbox(id: string): FieldInput {
  const control = element("input", { type: "checkbox", id });
  return {
    control,
    read: () => control.checked,
    write: (value) => {
      control.checked = value === true;
    },
    showNull: (yes) => {
      control.indeterminate = yes;
    },
    listen: (changed) => control.addEventListener("change", () => changed(true)),
  };
}
