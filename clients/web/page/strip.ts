/** The strip: thumbnails over a line of the world's own time, to choose a moment of it. Loaded when it is first opened. */
import type { Client, Moment } from "../src/index.ts";
import { element } from "./dom.ts";
import { type Moments, newestAt } from "./moments.ts";
import { number, plural, STRIP } from "./strings.ts";
import type { PageWorlds } from "./worlds.ts";

/** Milliseconds: between two lists, between two large pictures, until a hand rests, and until keys have been let go. */
const LIST_EVERY = 1000;
const LARGE_EVERY = 200; // an address may not ask for more than some hundred things a minute
const RESTS_AFTER = 150;
const KEYS_END_AFTER = 1000;
/** Seconds that a thumbnail may stand for. Their places are multiples of these, so that thumbnails stay as time goes on. */
const SPANS = [0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 15, 20, 30, 45, 60];
/** Seconds of a large step by key. */
const PAGE = 5;
/** Keys that press a button, and those that do nothing alone or move the focus. */
const OF_CONTROLS = /^(Enter| )$/;
const WITH_OTHERS = /^(Tab|Shift|Control|Alt|AltGraph|Meta|CapsLock|Fn)$/;
const NOTHING: Moments = { all: [], now: -1 };

export class Strip {
  #client: Client;
  #worlds: PageWorlds;
  #when = element("span", { class: "when", "aria-hidden": "true" });
  #tiles = element("div", { class: "tiles" });
  #film = element("div", { class: "film", role: "slider", tabindex: 0, "aria-label": STRIP.label, "aria-valuemin": 0 }, this.#tiles);
  #oldest = element("span");
  #strip = element("section", { id: "strip", "aria-label": STRIP.label, hidden: true });
  /** The chosen moment's picture, over the session's. */
  #large = element("img", { id: "strip-picture", alt: "", hidden: true });
  #moments = NOTHING;
  /** Addresses of pictures by step; empty while one is on its way, and if there is none. */
  #pictures = new Map<number, string>();
  /** The step whose large picture is wanted, and whether one is on its way. */
  #wanted: number | null = null;
  #enlarging = false;
  /** Whether a hand chooses, or holds. */
  #chosen: number | null = null;
  #held = false;
  #lists: ReturnType<typeof setInterval> | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #keysEnd: ReturnType<typeof setTimeout> | undefined;

  /** `hero` is the picture's place, and gets the strip; its style sheet is there. */
  constructor(client: Client, worlds: PageWorlds, hero: HTMLElement) {
    this.#client = client;
    this.#worlds = worlds;
    const close = element("button", { type: "button", class: "close", "aria-label": STRIP.close }, "×");
    close.addEventListener("click", () => this.close());
    const axis = element("div", { class: "axis", "aria-hidden": "true" }, this.#oldest, element("span", {}, STRIP.now));
    this.#strip.append(element("div", { class: "top" }, this.#when, close), this.#film, axis);
    hero.append(this.#large, this.#strip);
    this.#listen();
  }

  toggle(): void {
    if (this.#strip.hidden) void this.#open().then(() => this.#film.focus());
    else this.close();
  }

  /** Opens, and follows what holds until `letGo()`. */
  hold(): void {
    this.#held = true;
    void this.#open();
  }

  letGo(): void {
    this.#held = false;
  }

  /** Shows where the world is, or will be. */
  show(moments: Moments): void {
    this.#moments = moments;
    const { all, now } = moments;
    const [first, at, last] = [all[0], all[now], all.at(-1)];
    if (!first || !at || !last) return;
    const ago = last.age - at.age;
    const seconds = Number(ago.toFixed(ago < 10 ? 1 : 0));
    const text = seconds > 0 ? plural(STRIP.ago, seconds) : STRIP.now;
    this.#when.textContent = text;
    this.#oldest.textContent = `−${clock(last.age - first.age)}`;
    this.#film.ariaValueText = text;
    this.#film.ariaValueMax = String(all.length - 1);
    this.#film.ariaValueNow = String(now);
    this.#strip.dataset.moment = String(at.step);
    this.#strip.style.setProperty("--at", String((at.age - first.age) / spanOf(all)));
    this.#draw();
  }

  close(): void {
    if (this.#strip.hidden) return;
    if (this.#strip.contains(document.activeElement)) this.#worlds.focus();
    void this.#end();
    this.#strip.hidden = true;
    clearInterval(this.#lists);
    for (const address of this.#pictures.values()) URL.revokeObjectURL(address);
    this.#pictures.clear();
    this.#moments = NOTHING;
    this.#tiles.replaceChildren();
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  async #open(): Promise<void> {
    if (!this.#strip.hidden) return;
    await this.#refresh();
    this.#strip.hidden = false;
    clearInterval(this.#lists);
    this.#lists = setInterval(() => void this.#refresh(), LIST_EVERY);
    this.show(this.#moments);
  }

  async #refresh(): Promise<void> {
    try {
      const moments = await this.#worlds.moments();
      if (this.#chosen === null && !(this.#held && this.#moments !== NOTHING)) this.show(moments);
    } catch (error) {
      this.close();
      this.#worlds.report(error);
    }
  }

  #listen(): void {
    const film = this.#film;
    let dragged = false;
    film.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      dragged = true;
      film.setPointerCapture(event.pointerId);
      this.#chooseAt(event.clientX);
    });
    film.addEventListener("pointermove", (event) => dragged && this.#chooseAt(event.clientX));
    for (const end of ["pointerup", "pointercancel"] as const)
      film.addEventListener(end, () => {
        if (dragged) void this.#end();
        dragged = false;
      });
    film.addEventListener("keydown", (event) => {
      const { all, now } = this.#moments;
      const age = all[now]?.age ?? 0;
      const to: { readonly [key: string]: number } = {
        ArrowLeft: now - 1,
        ArrowDown: now - 1,
        ArrowRight: now + 1,
        ArrowUp: now + 1,
        PageDown: newestAt(all, age - PAGE),
        PageUp: newestAt(all, age + PAGE),
        Home: 0,
        End: all.length - 1,
      };
      const chosen = to[event.key];
      if (chosen === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation(); // it is not for the model
      this.#choose(chosen);
      this.#keysEnd = setTimeout(() => void this.#end(), KEYS_END_AFTER);
    });
    film.addEventListener("blur", () => dragged || void this.#end());
    // Who plays on needs it no more. What the strip and the page's own keys take does not come here.
    addEventListener("keydown", ({ key, target }) => {
      const isUsed = target instanceof Node && this.#strip.contains(target) && OF_CONTROLS.test(key);
      if (key === "Escape") this.close();
      else if (!isUsed && !WITH_OTHERS.test(key)) this.#playOn();
    });
    const isPlay = (target: EventTarget | null): boolean => target instanceof Element && !target.closest("#strip, #bar");
    addEventListener("pointerdown", ({ target }) => isPlay(target) && this.#playOn(), { capture: true });
  }

  /** The next key is the model's. */
  #playOn(): void {
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && this.#strip.contains(focused)) focused.blur();
    this.close();
  }

  #chooseAt(x: number): void {
    const { left, width } = this.#film.getBoundingClientRect();
    const { all } = this.#moments;
    this.#choose(newestAt(all, (all[0]?.age ?? 0) + ((x - left) / width) * spanOf(all) + 1e-9));
  }

  /** Shows a moment at once, and goes there when the hand rests. */
  #choose(index: number): void {
    const { all } = this.#moments;
    const now = Math.min(Math.max(index, 0), all.length - 1);
    const { step } = all[now] ?? {};
    if (step === undefined) return;
    if (this.#chosen === null) this.#worlds.begin();
    clearTimeout(this.#keysEnd);
    if (step === this.#chosen) return;
    this.#chosen = step;
    this.show({ all, now });
    void this.#enlarge(now);
    clearTimeout(this.#rest);
    // A session that cannot be paused makes steps, after which nothing is ahead: it goes once, at the end.
    if (this.#client.transport.allowed.includes("pause")) this.#rest = setTimeout(() => void this.#worlds.go(step), RESTS_AFTER);
  }

  /** The hand has chosen. */
  async #end(): Promise<void> {
    const step = this.#chosen;
    clearTimeout(this.#rest);
    clearTimeout(this.#keysEnd);
    if (step === null) return;
    await this.#worlds.go(step);
    this.#chosen = this.#wanted = null;
    this.#large.hidden = true;
    this.#worlds.end();
  }

  // ---- pictures ------------------------------------------------------------------------------------------------------

  #draw(): void {
    const { all } = this.#moments;
    const { width, height } = this.#film.getBoundingClientRect();
    const first = all[0]?.age ?? 0;
    const span = spanOf(all);
    const ratio = Number(document.documentElement.style.getPropertyValue("--ratio")) || 16 / 9;
    const each = SPANS.find((seconds) => (span / seconds) * height * ratio <= width) ?? 120;
    const from = Math.floor(first / each);
    const count = width ? Math.ceil((first + span) / each) - from : 0;
    while (this.#tiles.childElementCount < count) this.#tiles.append(element("i"));
    [...(this.#tiles.children as HTMLCollectionOf<HTMLElement>)].forEach((tile, i) => {
      tile.hidden = i >= count;
      if (tile.hidden) return;
      const begin = (from + i) * each;
      tile.style.left = `${((begin - first) / span) * 100}%`;
      tile.style.width = `${(each / span) * 100}%`;
      const address = this.#pictureAt(begin + each / 2);
      if (address) tile.style.backgroundImage = `url(${address})`;
    });
  }

  /** The address of the newest picture of at most this age, or of the oldest; empty while it is on its way. */
  #pictureAt(age: number): string {
    const shown = this.#moments.all.filter(({ picture }) => picture);
    const step = shown[newestAt(shown, age)]?.step;
    if (step === undefined) return "";
    if (!this.#pictures.has(step)) {
      this.#pictures.set(step, "");
      this.#client.worlds.picture(step).then(
        (picture) => {
          if (this.#strip.hidden) return;
          this.#pictures.set(step, URL.createObjectURL(picture));
          this.#draw();
        },
        () => {}, // it is gone
      );
    }
    return this.#pictures.get(step) ?? "";
  }

  /** Shows a moment over the session's picture: its thumbnail, then its large picture. */
  async #enlarge(index: number): Promise<void> {
    const { step, age } = this.#moments.all[index] as Moment;
    const small = this.#pictureAt(age);
    if (small) this.#setLarge(small);
    this.#wanted = step;
    if (this.#enlarging) return;
    this.#enlarging = true;
    while (this.#wanted !== null) {
      const wanted: number = this.#wanted;
      this.#wanted = null;
      const next = new Promise((resolve) => setTimeout(resolve, LARGE_EVERY));
      const picture = await this.#client.worlds.picture(wanted, { width: 320 }).catch(() => null);
      if (picture && this.#chosen !== null) {
        const address = URL.createObjectURL(picture);
        this.#setLarge(address);
        await this.#large.decode().catch(() => {});
        URL.revokeObjectURL(address);
      }
      await next;
    }
    this.#enlarging = false;
  }

  #setLarge(address: string): void {
    this.#large.src = address;
    this.#large.hidden = false;
  }
}

/** Seconds from the oldest to the newest. */
const spanOf = (all: readonly Moment[]): number => Math.max(0.5, (all.at(-1)?.age ?? 0) - (all[0]?.age ?? 0));

const clock = (seconds: number): string => `${number(Math.floor(seconds / 60))}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
