/** The panel beside the picture, or the sheet below it: folds away, and a sheet is as high as the user makes it. In full screen it lies on the picture. */
import type { SafeStorage } from "./storage.ts";

const KEY = "panel";
/** Heights of the sheet, in parts of the window. A lower one closes it. */
const LOWEST = 0.12;
const HIGHEST = 0.85;
const START = 0.42;
const KEY_STEP = 0.08;
/** Where the panel would lie on the picture (style.css has the same), it is closed until the user opens it. */
const LIES_ON_PICTURE = "(max-height: 480px) and (orientation: landscape)";

export class Panel {
  #toggle: HTMLElement;
  #grip: HTMLElement;
  #preferences: SafeStorage;
  #height = START;
  /** Whether the panel was open before full screen; null: there is no full screen. */
  #before: boolean | null = null;

  /** Full screen of `screen`, which contains the panel, begins with a closed panel. What the user chooses there is forgotten with it. */
  constructor(screen: HTMLElement, toggle: HTMLElement, grip: HTMLElement, preferences: SafeStorage) {
    this.#toggle = toggle;
    this.#grip = grip;
    this.#preferences = preferences;
    const kept = preferences.get(KEY);
    this.#open(kept ? kept === "open" : !matchMedia(LIES_ON_PICTURE).matches);
    toggle.addEventListener("click", () => this.#choose(!this.isOpen));
    document.addEventListener("fullscreenchange", () => this.#fullscreenChanged(document.fullscreenElement === screen));
    this.#listenToGrip();
  }

  get isOpen(): boolean {
    return document.body.dataset.panel === "open";
  }

  #choose(open: boolean): void {
    this.#open(open);
    if (this.#before === null) this.#preferences.set(KEY, open ? "open" : "closed");
  }

  #fullscreenChanged(full: boolean): void {
    if (full === (this.#before !== null)) return;
    const open = this.#before ?? false;
    this.#before = full ? this.isOpen : null;
    this.#open(open);
  }

  #open(open: boolean): void {
    document.body.dataset.panel = open ? "open" : "closed";
    this.#toggle.setAttribute("aria-pressed", String(open));
  }

  #listenToGrip(): void {
    const grip = this.#grip;
    let finger: number | null = null;
    grip.addEventListener("pointerdown", ({ pointerId }) => {
      grip.setPointerCapture(pointerId);
      finger = pointerId;
    });
    grip.addEventListener("pointermove", ({ pointerId, clientY }) => {
      if (pointerId === finger) this.#resize(1 - clientY / innerHeight);
    });
    const end = (): void => {
      finger = null;
      if (this.#height > LOWEST) return;
      this.#resize(START);
      this.#choose(false);
    };
    grip.addEventListener("pointerup", end);
    grip.addEventListener("pointercancel", end);
    grip.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: KEY_STEP, ArrowDown: -KEY_STEP }[event.key];
      if (steps === undefined) return;
      event.preventDefault();
      this.#resize(Math.max(LOWEST + KEY_STEP, this.#height + steps));
    });
  }

  #resize(height: number): void {
    this.#height = Math.min(HIGHEST, Math.max(0.05, height));
    document.documentElement.style.setProperty("--sheet", `${(this.#height * 100).toFixed(1)}dvh`);
    this.#grip.setAttribute("aria-valuenow", (this.#height * 100).toFixed(0));
  }
}
