/** The panel beside the picture, or the sheet below it: folds away, and a sheet is as high as the user makes it. In full screen it lies on the picture. */
import type { SafeStorage } from "./storage.ts";

const KEY = "panel";
/** Heights of the sheet, in parts of the window. A lower one closes it. */
const LOWEST = 0.12;
const HIGHEST = 0.85;
const KEY_STEP = 0.08;
/** Where the picture has all of a low window (style.css has the same). */
const LOW_WINDOW = "(max-height: 480px) and (orientation: landscape)";

export class Panel {
  #toggle: HTMLElement;
  #grip: HTMLElement;
  #preferences: SafeStorage;
  #screen: HTMLElement;
  #low = matchMedia(LOW_WINDOW);
  /** Whether the panel was open before it lay on the picture; null: it does not lie there. */
  #before: boolean | null = null;

  /**
   * In a low window and in full screen of `screen`, which contains the panel, the panel lies on the picture. That begins with a closed panel,
   * and what the user chooses there is forgotten with it.
   */
  constructor(screen: HTMLElement, toggle: HTMLElement, grip: HTMLElement, preferences: SafeStorage) {
    this.#toggle = toggle;
    this.#grip = grip;
    this.#preferences = preferences;
    this.#screen = screen;
    this.#open(preferences.get(KEY) !== "closed");
    this.#look();
    toggle.addEventListener("click", () => this.#choose(!this.isOpen));
    document.addEventListener("fullscreenchange", () => this.#look());
    this.#low.addEventListener("change", () => this.#look());
    this.#listenToGrip();
  }

  get isOpen(): boolean {
    return document.body.dataset.panel === "open";
  }

  /** Opens the panel, and moves the keyboard focus to it. */
  focus(): void {
    this.#open(true);
    (this.#grip.nextElementSibling as HTMLElement).focus();
  }

  #choose(open: boolean): void {
    this.#open(open);
    if (this.#before === null) this.#preferences.set(KEY, open ? "open" : "closed");
  }

  #look(): void {
    const over = this.#low.matches || document.fullscreenElement === this.#screen;
    document.body.toggleAttribute("data-over", over);
    if (over === (this.#before !== null)) return;
    const open = this.#before ?? false;
    this.#before = over ? this.isOpen : null;
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
      document.documentElement.style.removeProperty("--sheet");
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

  get #height(): number {
    return (this.#grip.parentElement?.offsetHeight ?? 0) / innerHeight;
  }

  #resize(to: number): void {
    const height = Math.min(HIGHEST, Math.max(0.05, to));
    document.documentElement.style.setProperty("--sheet", `${(height * 100).toFixed(1)}dvh`);
    this.#grip.setAttribute("aria-valuenow", (height * 100).toFixed(0));
  }
}
