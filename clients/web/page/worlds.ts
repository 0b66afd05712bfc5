/** Going back to an earlier moment, where the model saves its worlds: the button, Backspace, and a note for everyone. Loaded when it is needed. */
import { needsKey } from "../src/controls.ts";
import type { Client, WorldChange } from "../src/index.ts";
import { BACK_TO_BEGIN, element, icon, loadStyle } from "./dom.ts";
import { fillIn, number, WORLDS } from "./strings.ts";

/** How far a click goes back, in seconds. */
const CLICK = 5;
/** While it is held: how fast it goes back, and how often, in milliseconds. */
const SPEED = 2;
const EVERY = 100;
/** A press of the button that is longer holds, in milliseconds. */
const LONG_PRESS = 400;
const NOTE_FOR = 3000;
const UNDO_FOR = 60_000;

export class PageWorlds {
  #client: Client;
  #failed: (message: string) => void;
  #button: HTMLButtonElement;
  #undo: HTMLButtonElement;
  #note = element("p", { id: "rewound", role: "status" });
  #noteTimer: ReturnType<typeof setTimeout> | undefined;
  #undoTimer: ReturnType<typeof setTimeout> | undefined;
  /** Seconds that the note tells. */
  #noted = 0;
  /** Where the world was after the newest change, or in the beginning, and how long a step takes. */
  #clock = { step: -1, age: 0, seconds: 0 };
  /** Resolves when what holds lets go; null while nothing does. */
  #letGo: (() => void) | null = null;

  /** `stage` gets the note, and `bar` the buttons. `failed` reports what the server refused. */
  constructor(client: Client, stage: HTMLElement, bar: HTMLElement, failed: (message: string) => void) {
    this.#client = client;
    this.#failed = failed;
    this.#button = element("button", { type: "button", id: "rewind", hidden: true }, icon(BACK_TO_BEGIN));
    this.#undo = element("button", { type: "button", id: "undo-rewind", hidden: true }, WORLDS.undo);
    bar.prepend(this.#button, this.#undo);
    void loadStyle("worlds.css").then(() => stage.append(this.#note)); // without its style it would move the bar
    this.#undo.addEventListener("click", () => this.#do(client.worlds.undo()));
    this.#listenToButton();
    addEventListener("keydown", (event) => this.#keydown(event), { capture: true });
    addEventListener("keyup", ({ code }) => code === "Backspace" && this.#letGo?.());
    addEventListener("blur", () => this.#letGo?.());
    client.on("state", () => this.show());
  }

  /** Shows what is allowed now. Call it when a session begins. */
  show(): void {
    const { status } = this.#client.state;
    if (status === "resuming") return;
    const may = this.#client.worlds.may.includes("rewind");
    this.#button.hidden = !may;
    if (may) {
      document.body.dataset.world ??= "live";
      this.#button.title = fillIn(WORLDS.hold, { key: this.#shifted ? "⇧ ⌫" : "⌫" });
      this.#button.ariaLabel = WORLDS.rewind;
      return;
    }
    delete document.body.dataset.world;
    this.#letGo?.();
    this.#offerUndo(false);
    this.#clock = { step: -1, age: 0, seconds: 0 };
  }

  /** The world is that of an earlier moment: tells everyone how far that is. */
  changed({ step, to }: WorldChange): void {
    const { step: from, age } = this.#clock;
    // A step's length is that of the steps since the last change, for the server says the age of moments only.
    if (to.step > from) this.#clock.seconds = (to.age - age) / (to.step - from);
    const back = age + (step - 1 - from) * this.#clock.seconds - to.age;
    this.#clock = { ...this.#clock, step: step - 1, age: to.age };
    this.#noted += back;
    const n = number(Math.abs(this.#noted), 0, Math.abs(this.#noted) < 10 ? 1 : 0);
    this.#note.textContent = fillIn(this.#noted < 0 ? WORLDS.undone : WORLDS.rewound, { n });
    clearTimeout(this.#noteTimer);
    this.#noteTimer = setTimeout(() => {
      this.#note.textContent = "";
      this.#noted = 0;
    }, NOTE_FOR);
    this.#offerUndo(back > 0 && !this.#button.hidden);
  }

  /** Whether Backspace is the model's, so that it goes back only with Shift. */
  get #shifted(): boolean {
    return Boolean(this.#client.session?.schema.commands.some(({ name }) => name === "key_backspace"));
  }

  #offerUndo(on: boolean): void {
    this.#undo.hidden = !on;
    clearTimeout(this.#undoTimer);
    if (on) this.#undoTimer = setTimeout(() => this.#offerUndo(false), UNDO_FOR);
  }

  #keydown(event: KeyboardEvent): void {
    const [target] = event.composedPath();
    if (event.code !== "Backspace" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey !== this.#shifted) return;
    if (this.#button.hidden || needsKey(target instanceof HTMLElement ? target : null, event)) return;
    event.preventDefault();
    event.stopPropagation(); // it is not for the model
    if (!event.repeat) void this.#hold();
  }

  #listenToButton(): void {
    const button = this.#button;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let held = false;
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = false;
      timer = setTimeout(() => {
        held = true;
        void this.#hold();
      }, LONG_PRESS);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"] as const)
      button.addEventListener(end, () => {
        clearTimeout(timer);
        if (held) this.#letGo?.();
      });
    button.addEventListener("contextmenu", (event) => held && event.preventDefault());
    button.addEventListener("click", ({ detail }) => {
      if (!held || detail === 0) this.#do(this.#client.worlds.rewind({ seconds: CLICK }));
      held = false;
    });
  }

  /** Goes back, one rewind at a time, until it is let go. The session is paused meanwhile. */
  async #hold(): Promise<void> {
    if (this.#letGo !== null) return;
    const { transport, worlds } = this.#client;
    const ended = new Promise<void>((resolve) => {
      this.#letGo = resolve;
    });
    let held = true;
    void ended.then(() => {
      held = false;
    });
    const pauses = transport.allowed.includes("pause") && !transport.paused;
    document.body.dataset.world = "scrubbing";
    try {
      if (pauses) await transport.pause();
      let { step } = await worlds.rewind({ seconds: (SPEED * EVERY) / 1000 });
      let since = performance.now();
      while (held) {
        await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, EVERY))]);
        const now = performance.now();
        // Of the step, and not of what is shown: whether a picture of the last moment was shown does not matter.
        const steps = Math.max(1, Math.round((SPEED * (now - since)) / 1000 / (this.#clock.seconds || 1 / 30)));
        since = now;
        if (!held) break;
        const landed = await worlds.rewind({ step: Math.max(0, step - steps) });
        if (landed.step >= step) await ended; // there is nothing older
        step = landed.step;
      }
    } catch (error) {
      this.#report(error);
    }
    this.#letGo = null;
    if (document.body.dataset.world) document.body.dataset.world = "live";
    if (pauses) this.#do(transport.resume());
  }

  #do(answer: Promise<unknown>): void {
    answer.catch((error: unknown) => this.#report(error));
  }

  #report(error: unknown): void {
    const { code, message } = error as { readonly code?: unknown; readonly message: string };
    if (code !== "ended") this.#failed(`${WORLDS.failed}: ${message}`);
  }
}
