/** What the page has for hands: touch pads, the button of the key legend, and calls to give the model what it waits for. */
import { type Controls, wholeCrosses } from "../src/controls.ts";
import { byId, element, icon, loadStyle, within } from "./dom.ts";
import type { KeyLegend, PadsWhen } from "./key-legend.ts";
import type { Keyboard } from "./keyboard.ts";
import { LONG } from "./overlay.ts";
import type { SafeStorage } from "./storage.ts";
import { fillIn, HANDS, STRINGS } from "./strings.ts";
import type { TouchPads } from "./touch-pads.ts";

const PADS = "pads";
const STYLE = "hands.css";

export interface HandsContext {
  readonly controls: Controls;
  /** Null if the model has no keys. */
  readonly keyboard: Keyboard | null;
  readonly preferences: SafeStorage;
  readonly failed: (message: string) => void;
}

/** The hands of one session. */
export class Hands {
  #context: HandsContext;
  #legend: KeyLegend | null = null;
  #pads: TouchPads | null = null;
  #coarse = matchMedia("(pointer: coarse)");
  #open = element(
    "button",
    {
      type: "button",
      id: "legend-toggle",
      "aria-label": HANDS.open,
      title: HANDS.open,
      "aria-haspopup": "dialog",
      "aria-keyshortcuts": "?",
    },
    icon(["M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13", "M6 6.3a2 2 0 1 1 3 1.7q-1 .5-1 1.4M8 11.5v.3"]),
  );
  #stop = new AbortController();

  constructor(context: HandsContext) {
    this.#context = context;
    const { signal } = this.#stop;
    byId("panel-toggle").before(this.#open);
    this.#open.addEventListener("click", () => this.#showLegend());
    window.addEventListener("keydown", (event) => this.#keydown(event), { capture: true, signal });
    this.#coarse.addEventListener("change", () => this.#showPads(), { signal });
    if (context.keyboard) context.keyboard.signsChanged = () => this.#showSigns();
    void this.#showPads();
  }

  close(): void {
    this.#stop.abort();
    this.#legend?.dialog.close();
    this.#pads?.close();
    document.body.removeAttribute("data-pads");
    this.#open.remove();
  }

  get #when(): PadsWhen {
    const kept = this.#context.preferences.get(PADS);
    return kept === "on" || kept === "off" ? kept : "auto";
  }

  #keydown(event: KeyboardEvent): void {
    if (event.key !== "?" || event.ctrlKey || event.metaKey || isTyped(event.target) || this.#legend?.dialog.open) return;
    event.preventDefault();
    event.stopPropagation();
    void this.#showLegend();
  }

  #showSigns(): void {
    this.#legend?.showSigns();
    this.#pads?.close();
    this.#pads = null;
    void this.#showPads();
  }

  async #showLegend(): Promise<void> {
    const { controls, keyboard, preferences, failed } = this.#context;
    try {
      const [{ KeyLegend }] = await Promise.all([import("./key-legend.ts"), loadStyle(STYLE)]);
      if (this.#stop.signal.aborted || this.#legend?.dialog.open) return;
      if (document.pointerLockElement) document.exitPointerLock();
      this.#pads?.release(); // a finger may lie on them; the model gets no key while the dialog is open
      const setPads = (when: PadsWhen): void => {
        preferences.set(PADS, when === "auto" ? null : when);
        void this.#showPads();
      };
      this.#legend = new KeyLegend(within(document, "main"), { controls, keyboard, pads: this.#when, setPads });
    } catch (error) {
      failed(fillIn(STRINGS.problems.keys, { why: (error as Error).message }));
    }
  }

  async #showPads(): Promise<void> {
    const { keyboard, failed } = this.#context;
    const wanted = (): boolean => keyboard !== null && (this.#when === "on" || (this.#when === "auto" && this.#coarse.matches));
    // The layout keeps room for them.
    if (wanted()) document.body.dataset.pads = padRoom(this.#context.controls.keys.map(({ key }) => key));
    else {
      delete document.body.dataset.pads;
      this.#pads?.close();
      this.#pads = null;
      return;
    }
    try {
      const [{ TouchPads }] = await Promise.all([import("./touch-pads.ts"), loadStyle(STYLE)]);
      if (keyboard === null || !wanted() || this.#pads || this.#stop.signal.aborted) return;
      const keys = keyboard.keys.map(({ command, button: { press } }) => {
        const { key, description, held } = command;
        return { key, sign: keyboard.sign(command), description, press, repeats: !held };
      });
      this.#pads = new TouchPads(byId("stage"), keys);
      keyboard.showOnPads(this.#pads.shown);
    } catch (error) {
      failed(fillIn(STRINGS.problems.keys, { why: (error as Error).message }));
    }
  }
}

/** How much room pads for these keys need: for two crosses, for one, or for one row of buttons. */
function padRoom(keys: readonly string[]): string {
  const crosses = wholeCrosses(keys).length;
  if (crosses > 1) return "two";
  return crosses === 0 && keys.length <= 3 ? "row" : "one";
}

/** Whether a `?` is text for this element. */
const isTyped = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.matches("input:not([type=range], [type=checkbox], [type=file]), textarea, select, [contenteditable]");

const calls = element("div", { id: "calls" });

/** Shows what the user can start while the model shows no picture, instead of what was there. */
export function callToAction(nodes: readonly HTMLElement[]): void {
  if (!calls.isConnected) byId("overlay").append(calls);
  calls.replaceChildren(...nodes);
}

/** A button that asks for the file of the only field for files: at once for a model that `needs` it, else after a long wait, until `over`. */
export function fileCall(needs: boolean, over: AbortSignal): HTMLElement {
  const button = element("button", { type: "button", class: needs ? "primary" : "", hidden: !needs }, HANDS.file);
  const shown = setTimeout(() => {
    button.hidden = false;
  }, LONG * 1000);
  over.addEventListener("abort", () => clearTimeout(shown));
  button.addEventListener("click", () => within(byId("controls"), "input.file").click());
  return button;
}
