/** The dialog that lists what keys, pointer and gamepad do, and lets the user choose other keys. Loaded when it is opened. */
import type { Controls } from "../src/controls.ts";
import { byId, element } from "./dom.ts";
import type { Keyboard, ShownKey } from "./keyboard.ts";
import { buttonSign, eventSign, pointerRows } from "./signs.ts";
import { fillIn, HANDS, LEGEND } from "./strings.ts";

/** Keys that are not for a model: they move the focus, change other keys, or are the browser's. */
const NOT_GIVEN = /^(Tab|Shift|Control|Alt|AltGraph|Meta|CapsLock|Fn|Dead|Process|Unidentified|ContextMenu|F\d+|\?)$/;

/** When touch pads are shown. */
export type PadsWhen = keyof typeof LEGEND.padsWhen;

export interface LegendContext {
  readonly controls: Controls;
  /** Null if the model has no keys. */
  readonly keyboard: Keyboard | null;
  readonly pads: PadsWhen;
  readonly setPads: (when: PadsWhen) => void;
}

export class KeyLegend {
  readonly dialog: HTMLDialogElement;
  #keyboard: Keyboard | null;
  #status = element("p", { role: "status", class: "description" });
  #rows = new Map<ShownKey, { readonly sign: HTMLElement; readonly change: HTMLButtonElement }>();
  #reset = element("button", { type: "button" }, LEGEND.reset);
  #asked: ShownKey | null = null; // whose key the user is to press
  #stop = new AbortController();

  /** Shows the dialog in `stage` until it is closed. */
  constructor(stage: HTMLElement, { controls, keyboard, pads, setPads }: LegendContext) {
    this.#keyboard = keyboard;
    const close = element("button", { type: "button", class: "icon", "aria-label": LEGEND.close, title: LEGEND.close }, "✕");
    const page = section(LEGEND.page, [...worldRows(), ...LEGEND.shortcuts]);
    const touch = matchMedia("(pointer: coarse)").matches; // where a keyboard is rare
    const head = element("div", { class: "section-head" }, element("h2", { id: "key-legend-title" }, LEGEND.title), close);
    this.dialog = element(
      "dialog",
      { id: "key-legend", tabindex: -1, "aria-labelledby": "key-legend-title" },
      head,
      ...(touch ? [section(LEGEND.buttons, barRows())] : [keyboard && this.#keys(keyboard)]),
      keyboard && padsChoice(pads, setPads),
      section(LEGEND.pointer, pictureRows(controls)),
      section(LEGEND.gamepad, gamepadRows(controls)),
      touch && keyboard ? element("details", {}, element("summary", {}, LEGEND.keyboard), this.#keys(keyboard), page) : page,
      touch ? null : section(LEGEND.buttons, barRows()),
    );
    close.addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => {
      event.stopPropagation(); // the focus stays in the dialog, and does not return to the picture
      if (event.target === this.dialog) this.dialog.close(); // beside its content
    });
    this.dialog.addEventListener("change", (event) => event.stopPropagation());
    this.dialog.addEventListener("cancel", (event) => {
      if (this.#asked === null) return;
      event.preventDefault();
      this.#ask(null);
    });
    this.dialog.addEventListener("close", () => {
      this.#stop.abort();
      this.dialog.remove();
    });
    // The model gets no key while the dialog is open.
    window.addEventListener("keydown", (event) => this.#keydown(event), { capture: true, signal: this.#stop.signal });
    keyboard?.release();
    stage.append(this.dialog);
    this.dialog.showModal();
    this.dialog.focus();
  }

  #keydown(event: KeyboardEvent): void {
    if (!this.dialog.open) return; // the event `close` comes a moment later
    event.stopPropagation();
    const asked = this.#asked;
    if (asked === null) {
      if (event.key === "?") this.dialog.close();
      return;
    }
    if (event.key === "Escape") {
      event.preventDefault(); // the dialog stays
      this.#ask(null);
    } else if (!event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey && event.code && !NOT_GIVEN.test(event.key)) {
      event.preventDefault();
      this.#give(asked, event);
    }
  }

  #keys(keyboard: Keyboard): HTMLElement {
    const rows = keyboard.keys.map((key) => {
      const what = describe(key);
      const sign = element("kbd", {}, keyboard.sign(key.command));
      const label = fillIn(LEGEND.changeKey, { what });
      const change = element(
        "button",
        { type: "button", class: "quiet", "aria-label": label, "data-change": key.command.key },
        LEGEND.change,
      );
      change.addEventListener("click", () => this.#ask(this.#asked === key ? null : key));
      this.#rows.set(key, { sign, change });
      return element("li", {}, sign, element("span", {}, what), change);
    });
    this.#reset.disabled = !keyboard.map.changed;
    this.#reset.addEventListener("click", () => {
      keyboard.map.reset();
      this.#show(LEGEND.resetDone);
    });
    const list = element("ul", {}, ...rows);
    return element("section", {}, element("h3", {}, LEGEND.keys), list, this.#status, this.#reset);
  }

  /** Waits for the key that is to press this one from now on; null: for none. */
  #ask(key: ShownKey | null): void {
    const before = this.#asked && this.#rows.get(this.#asked);
    if (before) before.change.textContent = LEGEND.change;
    this.#asked = key;
    const row = key && this.#rows.get(key);
    if (row) row.change.textContent = LEGEND.press;
    this.#status.textContent = key ? fillIn(LEGEND.asked, { what: describe(key) }) : "";
  }

  #give(key: ShownKey, event: KeyboardEvent): void {
    const { map } = this.#keyboard as Keyboard; // there are rows only if there is one
    const done = map.give(key.command.key, event);
    this.#ask(null);
    this.#show(fillIn(done ? LEGEND.given : LEGEND.refused, { what: describe(key), sign: eventSign(event) }));
  }

  /** Shows what stands on the keys now. */
  showSigns(): void {
    for (const [{ command }, { sign }] of this.#rows) sign.textContent = this.#keyboard?.sign(command) ?? "";
  }

  #show(status: string): void {
    const keyboard = this.#keyboard as Keyboard;
    keyboard.showMap();
    if (!keyboard.map.changed && document.activeElement === this.#reset) this.dialog.querySelector("button")?.focus();
    this.#reset.disabled = !keyboard.map.changed;
    this.#status.textContent = status;
  }
}

const describe = ({ command: { description, title } }: ShownKey): string => description || title;

function padsChoice(now: PadsWhen, choose: (when: PadsWhen) => void): HTMLElement {
  const options = Object.entries(LEGEND.padsWhen).map(([value, words]) => element("option", { value }, words));
  const select = element("select", { id: "pads-when" }, ...options);
  select.value = now;
  select.addEventListener("change", () => choose(select.value as PadsWhen));
  return element("section", { class: "pads-when" }, element("label", { for: "pads-when" }, LEGEND.pads), select);
}

function section(title: string, rows: readonly (readonly [sign: string | Node, words: string])[]): HTMLElement | null {
  if (rows.length === 0) return null;
  const lines = rows.map(([sign, words]) => element("li", {}, element("kbd", {}, sign), element("span", {}, words)));
  return element("section", {}, element("h3", {}, title), element("ul", {}, ...lines));
}

/** The bar's buttons, whose icons have their words only for a mouse that rests on them. */
function barRows(): [Node, string][] {
  return [...byId("bar").querySelectorAll<HTMLElement>("[aria-label]:is(button, summary)")].flatMap((button): [Node, string][] => {
    const sign = button.querySelector("svg")?.cloneNode(true);
    return sign && button.checkVisibility() ? [[sign, button.title || button.getAttribute("aria-label") || ""]] : [];
  });
}

/** The keys for earlier moments, where the model has them. */
function worldRows(): [string, string][] {
  const rewind = document.getElementById("rewind");
  if (!rewind?.checkVisibility()) return [];
  const { key = "", strip = "" } = rewind.dataset;
  return [
    [key, LEGEND.back],
    [strip, LEGEND.strip],
  ];
}

function pictureRows({ pointer, look }: Controls): [string, string][] {
  const rows = pointerRows(pointer).map(({ sign, words }): [string, string] => [sign, words]);
  return look ? [...rows, [HANDS.look, fillIn(LEGEND.lookHow, { what: look.description || HANDS.around })]] : rows;
}

function gamepadRows({ pad: { buttons, axes } }: Controls): [string, string][] {
  const rows = buttons.map(({ button, name, description }): [string, string] => [buttonSign(button), description || name]);
  return axes ? [...rows, [HANDS.sticks, axes.description || axes.fields.join(", ")]] : rows;
}
