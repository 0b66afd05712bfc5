/**
 * Controls for the commands of a schema. While the user does not change the control of a setting, it shows the model's value.
 *
 * `send(name, data)` is the session's `command`; `reply(name, value)` gets the return value of an action's handler;
 * `uploads` sends files.
 */

import type { ActionCommand, Field, SettingCommand } from "../src/controls.ts";
import type { Applied, Setting } from "../src/index.ts";
import type { TextAnswer } from "./answers.ts";
import { BACK_TO_BEGIN, element, icon, refusalLine } from "./dom.ts";
import { choiceWords, createField } from "./fields.ts";
import { type Presentation, presented } from "./presented.ts";
import { wordsOf } from "./refused-words.ts";
import { fillIn, STRINGS } from "./strings.ts";
import type { Uploads } from "./uploads.ts";

/** Sends a command in the running session. */
export type SendInSession = (name: string, data: Values) => Promise<Applied<unknown>>;

type Values = { [argument: string]: unknown };

/** The control of a setting. Close it with the session. */
export interface SettingControl {
  readonly element: HTMLElement;
  /** The value as the control shows it; undefined if there is none. */
  readonly value: unknown;
  /** Whether the value differs from the model's default, if it has one. */
  readonly changed: boolean;
  /** Whether the control shows this value. */
  shows(value: unknown): boolean;
  /** Sends a value, as if the user gave it. */
  set(value: unknown): void;
  /** Sends the model's default. */
  reset(): void;
  close(): void;
}

/** What a setting needs of the page. */
export interface SettingContext {
  /** Whether the server tells the values of settings. */
  readonly told: boolean;
  readonly uploads: Uploads;
  readonly hint: Presentation;
  /** Called when the value has changed. */
  readonly onvalue: () => void;
}

/** `setting` has the model's value. */
export function settingControl(
  { name, description, field: declared }: SettingCommand,
  setting: Setting<unknown>,
  { told, uploads, hint, onvalue }: SettingContext,
): SettingControl {
  const field = presented(declared, hint);
  const resetTitle = fillIn(STRINGS.settings.reset, { title: field.title, value: describeValue(field) });
  const reset = element("button", { type: "button", class: "reset", title: resetTitle, disabled: true }, icon(BACK_TO_BEGIN));
  // A default that JSON cannot give, such as a file, cannot be sent again.
  const hasDefault = field.initial !== undefined && field.kind !== "upload";
  const view = createField({ ...field, description: field.description || description }, uploads, {
    hint,
    reset: hasDefault ? reset : null,
  });
  const refusal = refusalLine(wordsOf);
  const control = element("div", { class: "control", "data-command": name }, view.element, refusal.element);
  // The server leaves files out of the values; the field of a model with settings is then empty, whatever the default says.
  const initial = field.kind === "upload" && told ? undefined : field.initial;
  let value = setting.value === undefined ? initial : setting.value; // the model's
  let given = value; // what the user gave last, or the model's value that replaced it
  let invalid = false; // the field's content is not a valid value; the refusal line says why
  view.write(value);
  let answer: TextAnswer | undefined;
  if (field.kind === "text" && (field.long || !hint?.widget))
    import("./answers.ts").then(
      ({ TextAnswer }) => {
        answer = new TextAnswer(view.element, field, () => given, refusal);
      },
      () => {}, // Enter sends the text, too
    );
  const isDefault = (): boolean => !hasDefault || same(given, field.initial);
  const showReset = (): void => {
    reset.disabled = isDefault() && !invalid;
    answer?.look();
    onvalue();
  };
  reset.disabled = isDefault();

  // A value that arrives while one of ours is in flight is older, or the newest value follows it.
  const show = (): void => {
    if (setting.pending || view.editing || invalid) return;
    given = value;
    view.write(value);
    showReset();
  };
  const give = async (wanted: unknown): Promise<void> => {
    given = wanted;
    showReset();
    try {
      await setting.set(wanted);
      refusal.hide();
      answer?.done();
    } catch (error) {
      const words = await import("./limits.ts").then(
        ({ refusedWords }) => refusedWords(field, wanted, (error as Error).message),
        () => null,
      );
      refusal.show(error, words);
      if (field.kind !== "text") show();
      else {
        // A refused text is there to be mended.
        if (!view.editing) view.write(wanted);
        invalid = true;
        given = value;
        showReset();
      }
    }
  };
  const set = (wanted: unknown): void => {
    invalid = false;
    view.write(wanted);
    void give(wanted);
  };
  reset.addEventListener("click", () => set(field.initial));
  view.onchange = () => {
    let wanted: unknown;
    try {
      wanted = view.read();
    } catch (error) {
      refusal.show(error);
      invalid = !view.empty;
      if (view.empty) view.write(value);
      return;
    }
    invalid = Boolean(answer?.refuse(wanted));
    showReset();
    if (invalid) return;
    refusal.hide();
    void give(wanted);
  };
  view.onleft = show;
  const stop = setting.subscribe(() => {
    control.classList.toggle("busy", setting.pending);
    if (setting.value === undefined) return; // the session is over, and its controls show what was
    value = setting.value;
    if (value !== given) show();
  });
  return {
    element: control,
    get value() {
      return given;
    },
    get changed() {
      return !isDefault();
    },
    shows: (wanted) => same(given, wanted),
    set,
    reset: () => set(field.initial),
    close: stop,
  };
}

/** Whether two values of JSON are the same. */
const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

const describeValue = ({ kind, initial }: Field): string =>
  kind === "select" ? choiceWords(initial) : typeof initial === "string" ? initial || "“”" : (JSON.stringify(initial) ?? "");

/** What the user has typed into the forms of actions, by command and argument: it is there in the next session, too. */
const typed = new Map<string, unknown>();

export function actionControl(
  { name, title, description, fields }: ActionCommand,
  send: SendInSession,
  reply: (name: string, value: unknown) => void,
  uploads: Uploads,
  hints: { readonly [argument: string]: Presentation } = {},
): HTMLElement {
  const views = fields.map((declared) => {
    const hint = hints[declared.name];
    const field = presented(declared, hint);
    const view = createField(field, uploads, { hint });
    const key = `${name}.${field.name}`;
    view.write(typed.has(key) ? typed.get(key) : field.initial);
    view.touched = typed.has(key);
    return { field, view, key };
  });
  const refusal = refusalLine(wordsOf);
  const button = element("button", { type: "submit", class: "action" }, title);
  const control = element(
    "form",
    { class: fields.length || description ? "control card" : "control", "data-command": name, novalidate: true },
    fields.length ? element("h3", { dir: "auto" }, title) : null,
    description ? element("p", { dir: "auto", class: "description" }, description) : null,
    ...views.map(({ view }) => view.element),
    button,
    refusal.element,
  );
  const refuse = (error: unknown, words: string | null = null): void => {
    refusal.show(error, words);
    refusal.element.scrollIntoView({ block: "nearest" });
  };
  const keep = (): void => {
    for (const { field, view, key } of views) {
      if (!view.touched || field.kind === "upload") continue; // a file is of one session
      try {
        typed.set(key, view.read());
      } catch {
        typed.delete(key); // it is no value yet
      }
    }
  };
  control.addEventListener("input", keep);
  control.addEventListener("change", keep);
  let unanswered = 0;
  const act = async (data: Values): Promise<void> => {
    unanswered += 1;
    control.classList.add("busy");
    try {
      const answer = await send(name, data);
      refusal.hide();
      import("./answers.ts").then(({ tick }) => tick(button, answer.reply)).catch(() => {});
      if (answer.reply !== undefined && answer.reply !== null) reply(title, answer.reply);
    } catch (error) {
      const all = views.map(({ field }) => field);
      const words = await import("./limits.ts").then(
        ({ refusedForm }) => refusedForm(all, data, (error as Error).message),
        () => null,
      );
      refuse(error, words);
    }
    unanswered -= 1;
    control.classList.toggle("busy", unanswered > 0);
  };
  control.addEventListener("submit", (event) => {
    event.preventDefault();
    const data: Values = {};
    for (const { field, view } of views) {
      // The model's own default applies to an argument that the user has not changed.
      if (!field.required && !view.touched) continue;
      try {
        data[field.name] = view.read();
      } catch (error) {
        refuse(new Error(`${field.title}: ${(error as Error).message}`));
        return;
      }
    }
    refusal.hide();
    void act(data);
  });
  // If a file is the only argument, its command is sent when the upload is complete.
  const [first] = views;
  if (views.length === 1 && first?.field.kind === "upload") first.view.onchange = () => control.requestSubmit();
  // A text field prevents the default of Enter, because in a setting Enter sends the field; here Enter sends the whole form.
  // Holding Enter sends it once.
  control.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    if (!event.repeat && event.defaultPrevented) control.requestSubmit();
    if (event.repeat && event.target === button) event.preventDefault();
  });
  return control;
}
