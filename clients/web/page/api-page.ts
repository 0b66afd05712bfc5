/** The dialog for programmers: how to connect, and every command with its arguments, a try, and lines to copy. Made from the schema; loaded when it is opened. */
import type { Field } from "../src/controls.ts";
import type { SessionInfo } from "../src/index.ts";
import { pageOf } from "../src/wire.ts";
import {
  type Arguments,
  argumentsOf,
  commandLine,
  connectJavascript,
  connectPython,
  curl,
  curlSchema,
  exampleOf,
  javascript,
  python,
  type Target,
} from "./api-lines.ts";
import type { SendInSession } from "./controls.ts";
import { element, loadStyle } from "./dom.ts";
import { API, fillIn } from "./strings.ts";

const LANGUAGES = { javascript: API.javascript, python: API.python, shell: API.commandLine };
type Language = keyof typeof LANGUAGES;

/** What the page's address ends with while the dialog is open. */
const HASH = "#api";

type Command = SessionInfo["schema"]["commands"][number];

/** Shows the dialog in `place` until it is closed; then the button that opens it has the focus. `send` sends in the page's session, and is null for a viewer. */
export function showApi(place: HTMLElement, info: SessionInfo, send: SendInSession | null, token: string | null): void {
  if (document.getElementById("api-page")) return;
  void loadStyle("later.css");
  if (location.hash !== HASH) history.pushState({ api: true }, "", HASH); // the browser's Back closes the dialog
  const target: Target = { base: pageOf(info.url).href, token: token !== null };
  const { schema } = info;
  const close = element("button", { type: "button", class: "icon", "aria-label": API.close, title: API.close }, "✕");
  const schemaLink = element("a", { href: new URL("schema", target.base).href, target: "_blank", rel: "noopener" }, API.schema);
  const dialog = element(
    "dialog",
    { id: "api-page", tabindex: -1, "aria-labelledby": "api-title" },
    element(
      "div",
      { class: "section-head" },
      element("h2", { id: "api-title" }, fillIn(API.title, { model: schema.about?.title || info.model })),
      close,
    ),
    element("p", { class: "description" }, API.intro, " ", target.token ? `${API.token} ` : null, schemaLink),
    languages(),
    element("section", { id: "api-connect" }, element("h3", {}, API.connect), ...connectPart(target)),
    element("h3", {}, API.commands),
    ...schema.commands.map((command, i) => commandPart(command, send, target, i === 0)),
    schema.commands.length ? null : element("p", {}, API.noCommands),
    info.takesFiles ? element("section", {}, element("h3", {}, API.files), ...filesPart(target)) : null,
    element(
      "section",
      {},
      element("h3", {}, API.tracks),
      list(info.tracks.map((track) => [track.name, API.directions[track.direction][track.kind]])),
    ),
    schema.messages.length
      ? element(
          "section",
          {},
          element("h3", {}, API.messages),
          list(schema.messages.map(({ name, description = "" }) => [name, description])),
        )
      : null,
  );
  const stop = new AbortController();
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    event.stopPropagation(); // the focus stays in the dialog, and does not return to the picture
    if (event.target === dialog) dialog.close(); // beside its content
  });
  dialog.addEventListener("change", (event) => event.stopPropagation());
  dialog.addEventListener("close", () => {
    stop.abort();
    dialog.remove();
    document.getElementById("api")?.focus({ preventScroll: true });
    if (location.hash !== HASH) return; // Back has closed it
    if (history.state?.api) history.back();
    else history.replaceState(history.state, "", location.pathname + location.search); // the page was opened with it
  });
  addEventListener("popstate", () => location.hash !== HASH && dialog.close(), { signal: stop.signal });
  // The model gets no key while the dialog is open.
  window.addEventListener("keydown", (event) => event.stopPropagation(), { capture: true, signal: stop.signal });
  place.append(dialog);
  dialog.showModal();
  dialog.focus();
}

/** Chooses the language of all lines to copy. */
function languages(): HTMLElement {
  const choices = Object.entries(LANGUAGES).map(([language, words], i) => {
    const choice = element("input", { type: "radio", name: "api-language", value: language, checked: i === 0 });
    return element("label", {}, choice, words);
  });
  return element("div", { class: "choices", role: "radiogroup", "aria-label": Object.values(LANGUAGES).join(", ") }, ...choices);
}

/** How a program gets to the model: a page that shows its pictures, a script, and a shell that asks what it can do. */
function connectPart(target: Target): readonly HTMLElement[] {
  const ways = [
    { language: "javascript", title: API.javascript, text: connectJavascript(target) },
    { language: "python", title: API.python, text: connectPython(target) },
    { language: "shell", title: API.curl, text: curlSchema(target) },
  ] as const;
  return ways.map(({ language, title, text }) => {
    const { part, show } = copyable(title, language);
    show(text);
    return part;
  });
}

/** `open`: unfolded. */
function commandPart(command: Command, send: SendInSession | null, target: Target, open: boolean): HTMLElement {
  const { name, description = "" } = command;
  const fields = argumentsOf(command);
  const example = Object.fromEntries(fields.map((field) => [field.name, exampleOf(field)]));
  const input = element("textarea", {
    class: "code",
    rows: 1,
    spellcheck: "false",
    "aria-label": fillIn(API.arguments, { command: name }),
  });
  input.value = JSON.stringify(example, null, fields.length > 1 ? 1 : 0);
  const outcome = element("output", { class: "code" });
  const attempt = element("button", { type: "button", class: "primary", disabled: send === null }, API.attempt);
  const lines = [
    { language: "javascript", write: javascript },
    { language: "python", write: python },
    { language: "shell", write: commandLine },
  ] as const;
  const parts = lines.map(({ language, write }) => ({ ...copyable(LANGUAGES[language], language), write }));
  let given: Arguments = example;
  const rewrite = (): void => {
    for (const { show, write } of parts) show(write(target, name, given));
  };
  input.addEventListener("input", () => {
    try {
      given = parsed(input.value);
      outcome.textContent = "";
    } catch (error) {
      outcome.textContent = (error as Error).message;
    }
    attempt.disabled = send === null || outcome.textContent !== "";
    rewrite();
  });
  attempt.addEventListener("click", async () => {
    if (send === null) return;
    outcome.textContent = API.sent;
    try {
      const { step, reply } = await send(name, given);
      outcome.textContent = fillIn(API.applied, { step, reply: JSON.stringify(reply ?? null) });
    } catch (error) {
      const { code, message } = error as { readonly code?: string; readonly message: string };
      outcome.textContent = fillIn(API.refused, { code: code ?? "", message });
    }
  });
  rewrite();
  return element(
    "details",
    { class: "api-command", "data-api": name, open },
    element("summary", {}, element("code", {}, name), " ", element("span", { class: "description" }, description)),
    fields.length ? argumentTable(fields) : element("p", { class: "description" }, API.noArguments),
    element("div", { class: "try" }, fields.length ? input : null, attempt, outcome),
    ...parts.map(({ part }) => part),
  );
}

/** The JSON object that the user has typed. Throws an Error for people. */
function parsed(text: string): Arguments {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(fillIn(API.notJson, { why: (error as Error).message }));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(API.noObject);
  return value as Arguments;
}

function argumentTable(fields: readonly Field[]): HTMLElement {
  const told = fields.some(({ description }) => description); // else no column is for it
  const rows = fields.map((field) => {
    const needed = field.required ? API.required : fillIn(API.optional, { value: JSON.stringify(field.initial ?? null) });
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, element("code", {}, field.name)),
      element("td", {}, describeType(field)),
      element("td", {}, needed),
      told ? element("td", {}, field.description) : null,
    );
  });
  const heads = [API.argument, API.type, API.needed, ...(told ? [API.meaning] : [])].map((title) => element("th", { scope: "col" }, title));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
}

/** "a number from 0 to 2" */
export function describeType(field: Field): string {
  const words = typeWords(field);
  return field.nullable ? fillIn(API.types.orNull, { type: words }) : words;
}

function typeWords(field: Field): string {
  const { types } = API;
  switch (field.kind) {
    case "slider":
    case "number": {
      const type = field.integer ? types.whole : types.number;
      const [minimum, maximum] = [field.minimum, field.maximum].map((limit) => limit?.toString()); // as programs write numbers
      if (minimum !== undefined && maximum !== undefined) return fillIn(types.between, { type, minimum, maximum });
      if (minimum !== undefined) return fillIn(types.least, { type, minimum });
      return maximum === undefined ? type : fillIn(types.most, { type, maximum });
    }
    case "text":
      return field.maxLength === undefined ? types.text : fillIn(types.longest, { type: types.text, limit: field.maxLength });
    case "select":
      return fillIn(types.oneOf, { choices: field.choices.map((choice) => JSON.stringify(choice)).join(", ") });
    case "checkbox":
      return types.boolean;
    case "upload":
      return types.file;
    case "json":
      return types.json;
  }
}

function filesPart(target: Target): readonly HTMLElement[] {
  const { part, show } = copyable(API.curl);
  show(curl(target));
  return [element("p", { class: "description" }, API.filesHow), part];
}

function list(rows: readonly (readonly [name: string, words: string])[]): HTMLElement {
  return element("ul", {}, ...rows.map(([name, words]) => element("li", {}, element("code", {}, name), " ", words)));
}

/** A text with a button that copies it; one in a language is shown while that is chosen. */
function copyable(title: string, language: Language | null = null): { readonly part: HTMLElement; show(text: string): void } {
  const code = element("code", {});
  const copy = element("button", { type: "button", class: "quiet", "aria-label": fillIn(API.copyWhat, { title }) }, API.copy);
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      copy.textContent = API.copied;
    } catch {
      getSelection()?.selectAllChildren(code); // the user may copy it by the keyboard
      copy.textContent = API.selected;
    }
  });
  const part = element(
    "div",
    { "data-language": language },
    element("p", { class: "api-line" }, title, copy),
    element("pre", { tabindex: 0 }, code),
  );
  return {
    part,
    show(text) {
      code.textContent = text;
      copy.textContent = API.copy;
    },
  };
}
