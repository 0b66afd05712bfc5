/** Going back to an earlier moment, where the model saves its worlds: the button, Backspace, and a note for everyone. Loaded when it is needed, as are the strip and the saved places. */
import { needsKey } from "../src/controls.ts";
import type { Client, Moment, RestoredWorld, WorldChange } from "../src/index.ts";
import { element, icon, loadStyle } from "./dom.ts";
import { type Moments, newestAt } from "./moments.ts";
import type { Pictures } from "./pictures.ts";
import type { Slots } from "./slots.ts";
import { fillIn, number, WORLDS } from "./strings.ts";
import type { Strip } from "./strip.ts";
import type { Toasts } from "./toasts.ts";

/** How far a click goes back, in seconds. */
const CLICK = 5;
/** While it is held: how fast it goes back, and how often, in milliseconds. */
const SPEED = 2;
const EVERY = 100;
/** A press of the button that is longer holds, in milliseconds. */
const LONG_PRESS = 400;
const NOTE_FOR = 3000;
const UNDO_FOR = 60_000;
const LOST_FOR = 10_000;
/** Three quarters of a circle to the left, its arrow, and a 5 in it. */
const BACK_FIVE = ["M3.9 3.7A6 6 0 1 0 8 2.2", "M10.2.4 7.9 2.2l2.3 2.2", "M9.7 6.3H7.1L6.8 8.5c.9-.8 3.1-.5 3.1 1.2 0 1.7-2.3 2-3.3.9"];

export class PageWorlds {
  #client: Client;
  #pictures: Pictures;
  #toasts: Toasts;
  #failed: (message: string) => void;
  #stage: HTMLElement;
  #button: HTMLButtonElement;
  #undo: HTMLButtonElement;
  #note = element("p", { id: "rewound", role: "status" });
  #noteTimer: ReturnType<typeof setTimeout> | undefined;
  #undoTimer: ReturnType<typeof setTimeout> | undefined;
  /** Seconds that the note tells. */
  #noted = 0;
  #change: WorldChange | null = null;
  /** The step of the newest moment to go to, until it is on its way. */
  #target: number | null = null;
  #going: Promise<void> | null = null;
  #resumes = false;
  #strip: Promise<Strip> | null = null;
  #slots: Promise<Slots> | null = null;
  /** The name of the place that is being loaded. */
  #loads = "";
  /** Whether an undo is under way; and whether the next one would take back an undo. */
  #undoing = false;
  #redoes = false;
  /** The session whose world this page has had last. */
  #session = "";
  /** The age of the world that the noted seconds count from. */
  #left = 0;
  /** A finger reads no titles. */
  #coarse = matchMedia("(pointer: coarse)");
  /** Resolves when what holds lets go; null while nothing does. */
  #letGo: (() => void) | null = null;

  /** `stage` gets the note, and `bar` the buttons. `failed` reports what the server refused. */
  constructor(client: Client, pictures: Pictures, toasts: Toasts, stage: HTMLElement, bar: HTMLElement, failed: (message: string) => void) {
    this.#client = client;
    this.#pictures = pictures;
    this.#toasts = toasts;
    this.#failed = failed;
    this.#stage = stage;
    this.#button = element("button", { type: "button", id: "rewind", hidden: true }, icon(BACK_FIVE));
    this.#undo = element("button", { type: "button", id: "undo-rewind", hidden: true }, WORLDS.undo);
    bar.prepend(this.#undo, this.#button); // the bar grows to the left, so the button stays under the pointer that holds it
    void loadStyle("worlds.css").then(() => stage.append(this.#note)); // without its style it would move the bar
    this.#undo.addEventListener("click", () => this.#do(this.#takeBack()));
    this.#listenToButton();
    addEventListener("keydown", (event) => this.#keydown(event), { capture: true });
    addEventListener("keyup", ({ code }) => code === "Backspace" && this.#letGo?.());
    addEventListener("blur", () => this.#letGo?.());
    client.on("state", () => this.show());
    this.#coarse.addEventListener("change", () => this.show());
  }

  /** Shows what is allowed now. Call it when a session begins. */
  show(): void {
    const { state, session } = this.#client;
    if (state.status === "resuming") return;
    const allowed = this.#client.worlds.may;
    if (allowed.includes("save") || allowed.includes("fork")) this.#showSlots();
    if (session && allowed.length && session.id !== this.#session) {
      if (this.#session) void this.#lost();
      this.#session = session.id;
    }
    const may = allowed.includes("rewind");
    this.#button.hidden = !may;
    if (may) {
      document.body.dataset.world ??= "live";
      const [key, strip] = [this.#sign("backspace", "⌫"), this.#sign("t", "T")];
      Object.assign(this.#button.dataset, { key, strip }); // for the legend
      this.#button.title = this.#coarse.matches ? `${WORLDS.rewind}: ${WORLDS.finger}` : fillIn(WORLDS.hold, { key, strip });
      this.#button.ariaLabel = WORLDS.rewind;
      return;
    }
    delete document.body.dataset.world;
    this.#letGo?.();
    this.#offerUndo(false);
    this.#change = null;
    if (this.#strip !== null) this.#withStrip((strip) => strip.close());
  }

  /** The world is that of another moment: tells everyone which. */
  changed(change: WorldChange): void {
    const { to, from = to.age, why } = change;
    this.#change = change;
    if (this.#undoing) {
      this.#tell(this.#redoes ? WORLDS.redone : WORLDS.undone);
      this.#offerUndo(true, !this.#redoes);
      return;
    }
    if (why !== "fork" && !this.#button.hidden) this.#offerUndo(true);
    if (why !== "rewind") {
      this.#tell(why === "fork" ? WORLDS.forked : this.#loads ? fillIn(WORLDS.loaded, { name: this.#loads }) : WORLDS.loadedByPlayer);
      return;
    }
    if (from === to.age) return;
    if (this.#noted === 0) this.#left = from;
    const seconds = this.#noted + from - to.age;
    // Those who watch are told no more: who plays has taken it back.
    if (to.age >= this.#left || seconds <= 0) this.#tell(WORLDS.undone);
    else this.#tell(fillIn(WORLDS.rewound, { n: number(seconds, 0, seconds < 10 ? 1 : 0) }) + this.#advice, seconds);
  }

  /** What a finger can do besides, until it has done it. */
  get #advice(): string {
    return this.#coarse.matches && !this.#button.hidden && this.#strip === null ? `: ${WORLDS.finger}` : "";
  }

  /** Goes on from a saved place. What is paused stays so, and shows it. */
  async restore(id: string, name: string): Promise<RestoredWorld> {
    const { worlds, transport } = this.#client;
    this.#loads = name;
    try {
      const restored = await worlds.restore(id);
      if (transport.paused && transport.allowed.includes("step")) await transport.step();
      return restored;
    } finally {
      this.#loads = "";
    }
  }

  /** The session of before is over, and its world with it: tells that this is another one, and offers the newest saved place. */
  async #lost(): Promise<void> {
    const slots = await this.#slots?.catch(() => null);
    const offer = slots?.offer();
    const close = element("button", { type: "button", class: "icon", title: WORLDS.dismiss, "aria-label": WORLDS.dismiss }, "✕");
    const toast = this.#toasts.hold(WORLDS.lost, ...(offer ? [offer] : []), close);
    toast.addEventListener("click", () => toast.remove());
    if (!offer) setTimeout(() => toast.remove(), LOST_FOR);
  }

  /** `seconds`: how far back the world is, to which those of the next note are added. */
  #tell(words: string, seconds = 0): void {
    this.#note.textContent = words;
    this.#noted = seconds;
    clearTimeout(this.#noteTimer);
    this.#noteTimer = setTimeout(() => {
      this.#note.textContent = "";
      this.#noted = 0;
    }, NOTE_FOR);
  }

  // ---- for the strip -------------------------------------------------------------------------------------------------

  async moments(): Promise<Moments> {
    const { moments: all } = await this.#client.worlds.list();
    const change = this.#change;
    // Of a world that has made no step since it was put, moments may be ahead.
    const stands = change !== null && (all.at(-1)?.step ?? 0) < change.step;
    const now = stands ? all.findLastIndex(({ step, age }) => step === change.to.step && age === change.to.age) : -1;
    return { all, now: now < 0 ? all.length - 1 : now };
  }

  /** Holds the session, until `end()`. */
  begin(): void {
    document.body.dataset.world = "scrubbing";
    const { transport } = this.#client;
    if (!transport.allowed.includes("pause") || transport.paused || this.#resumes) return;
    this.#resumes = true;
    this.#do(transport.pause());
  }

  end(): void {
    if (document.body.dataset.world) document.body.dataset.world = "live";
    if (this.#resumes) this.#do(this.#client.transport.resume());
    this.#resumes = false;
  }

  /** Goes to the moment of this step; one rewind at a time, the newest last. Resolves when the last one has landed. */
  go(step: number): Promise<void> {
    this.#target = step;
    this.#going ??= this.#goOn();
    return this.#going;
  }

  /** Gives the button the keyboard. */
  focus(): void {
    this.#button.focus();
  }

  report(error: unknown): void {
    const { code, message } = error as { readonly code?: unknown; readonly message: string };
    if (code !== "ended") this.#failed(`${WORLDS.failed}: ${message}`);
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  async #goOn(): Promise<void> {
    try {
      while (this.#target !== null) {
        const step = this.#target;
        this.#target = null;
        await this.#client.worlds.rewind({ step });
      }
    } catch (error) {
      this.#target = null;
      this.report(error);
    }
    this.#going = null;
  }

  /** Whether a key is the model's, so that here it is pressed with Shift. */
  #shifted(key: string): boolean {
    return Boolean(this.#client.session?.schema.commands.some(({ name }) => name === `key_${key}`));
  }

  #sign(key: string, sign: string): string {
    return this.#shifted(key) ? `⇧ ${sign}` : sign;
  }

  /** Goes to the world from before the last change. */
  async #takeBack(): Promise<void> {
    if (this.#undoing) return;
    this.#undoing = true;
    try {
      await this.#client.worlds.undo();
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "no_moment") throw error;
      this.#offerUndo(false); // its time was over as the server read it
    } finally {
      this.#undoing = false;
    }
  }

  /** `redoes`: what would be taken back is an undo. */
  #offerUndo(on: boolean, redoes = false): void {
    this.#redoes = redoes;
    this.#undo.hidden = !on;
    [this.#undo.textContent, this.#undo.title] = redoes ? [WORLDS.redo, WORLDS.redoHint] : [WORLDS.undo, WORLDS.undoHint];
    clearTimeout(this.#undoTimer);
    if (on) this.#undoTimer = setTimeout(() => this.#offerUndo(false), UNDO_FOR);
  }

  #keydown(event: KeyboardEvent): void {
    const [target] = event.composedPath();
    const key = event.key.toLowerCase();
    if (!/^(t|backspace)$/.test(key) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey !== this.#shifted(key)) return;
    if (this.#button.hidden || needsKey(target instanceof HTMLElement ? target : null, event)) return;
    event.preventDefault();
    event.stopPropagation(); // it is not for the model
    if (event.repeat) return;
    if (key === "t") this.#withStrip((strip) => strip.toggle());
    else void this.#hold(false);
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
        void this.#hold(true);
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

  /** Goes back until it is let go. The session is paused meanwhile, and the strip opens; `always`: also if it comes late. */
  async #hold(always: boolean): Promise<void> {
    if (this.#letGo !== null) return;
    let held = true;
    const ended = new Promise<void>((resolve) => {
      this.#letGo = resolve;
    }).then(() => {
      held = false;
    });
    let strip: Strip | null = null;
    this.#withStrip((loaded) => {
      strip = loaded;
      if (held || always) loaded.hold();
      if (!held) loaded.letGo();
    });
    this.begin();
    try {
      const { all, now } = await this.moments();
      let at = now;
      let age = (all[now]?.age ?? 0) - (SPEED * EVERY) / 1000; // also for who only taps
      let since = performance.now();
      while (at > 0) {
        const next = newestAt(all, age);
        if (next < at) {
          at = next;
          (strip as Strip | null)?.show({ all, now: at });
          void this.go((all[at] as Moment).step);
        }
        if (!held) break;
        await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, EVERY))]);
        if (!held) break;
        age -= (SPEED * (performance.now() - since)) / 1000;
        since = performance.now();
      }
      await ended;
      await this.#going;
    } catch (error) {
      this.report(error);
    }
    this.#letGo = null;
    this.end();
    (strip as Strip | null)?.letGo();
  }

  #withStrip(use: (strip: Strip) => void): void {
    this.#strip ??= Promise.all([import("./strip.ts"), loadStyle("strip.css")]).then(
      ([{ Strip }]) => new Strip(this.#client, this, this.#stage.querySelector("#hero") as HTMLElement),
    );
    this.#strip.then(use, () => {}); // without it one can go back, too
  }

  #showSlots(): void {
    this.#slots ??= Promise.all([import("./slots.ts"), loadStyle("slots.css")]).then(
      ([{ Slots }]) => new Slots(this.#client, this, this.#pictures),
    );
    this.#slots.then(
      (slots) => slots.begin(),
      () => {}, // without it there is the picture
    );
  }

  #do(answer: Promise<unknown>): void {
    answer.catch((error: unknown) => this.report(error));
  }
}
