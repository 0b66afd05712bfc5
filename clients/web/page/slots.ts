/** The saved places: save the world under a name, load it, delete it; and a link with which somebody else goes on from here. Loaded when the model allows it. */
import type { Client } from "../src/index.ts";
import { byId, element, refusalLine } from "./dom.ts";
import { forkAddress } from "./fork-address.ts";
import { LANGUAGE } from "./language.ts";
import { isLoopback } from "./loopback.ts";
import type { Pictures } from "./pictures.ts";
import { PlaceFilm } from "./place-film.ts";
import { type SavedPlace, SavedPlaces } from "./saved-places.ts";
import { SafeStorage } from "./storage.ts";
import { fillIn, SLOTS } from "./strings.ts";
import type { PageWorlds } from "./worlds.ts";

/** For how long a deleted place can be had again, in milliseconds. */
const UNDO_FOR = 10_000;
const AGES_EVERY = 30_000;
const LONGEST_NAME = 60;
/** Seconds, and the unit in which an age is told from there on. */
const UNITS = [
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
] as const;

const WORDS: { readonly [code: string]: string | undefined } = SLOTS.refused;

export class Slots {
  #client: Client;
  #worlds: PageWorlds;
  #pictures: Pictures;
  #section = byId("slots", HTMLFieldSetElement);
  #storage = new SafeStorage(() => globalThis.localStorage);
  #places = new SavedPlaces(this.#storage, "");
  #name = element("input", { type: "text", "aria-label": SLOTS.name, maxlength: LONGEST_NAME, autocomplete: "off", enterkeyhint: "done" });
  #save = element("button", { type: "submit", id: "save-place", title: SLOTS.saveHint }, SLOTS.save);
  #fork = element("button", { type: "button", id: "fork", class: "quiet", title: SLOTS.forkHint }, SLOTS.fork);
  #list = element("ul");
  #lasts = element("p", { class: "description", hidden: true }, SLOTS.session);
  /** What is seen in the list, for those who do not see it. */
  #status = element("p", { class: "unseen", role: "status" });
  /** What the link takes along. */
  #notice = element("p", { class: "notice", role: "status" });
  #link = element("input", { type: "text", id: "fork-link", readonly: true, "aria-label": SLOTS.linkLabel, hidden: true });
  #refusal = refusalLine((code) => WORDS[String(code)] ?? null);
  #session = "";
  /** Whether a save, a link or a load is under way; the server takes one. */
  #busy = false;
  /** By id the timers of deleted places that can be had again. */
  #deleted = new Map<string, ReturnType<typeof setTimeout>>();

  /** Its style sheet is there. */
  constructor(client: Client, worlds: PageWorlds, pictures: Pictures) {
    this.#client = client;
    this.#worlds = worlds;
    this.#pictures = pictures;
    const form = element("form", {}, this.#name, this.#save);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#do(this.#save, () => this.#saveHere());
    });
    this.#fork.addEventListener("click", () => void this.#do(this.#fork, () => this.#linkFromHere()));
    this.#section.ariaLabel = SLOTS.title;
    const head = element("div", { class: "places-head" }, element("h2", {}, SLOTS.title), this.#fork, form);
    this.#section.append(head, this.#notice, this.#link, this.#refusal.element, this.#list, this.#lasts, this.#status);
    setInterval(() => this.#showAges(), AGES_EVERY);
    addEventListener("pagehide", () => {
      for (const id of this.#deleted.keys()) void this.#forget(id);
    });
  }

  /** Shows what is there for the session of now. */
  async begin(): Promise<void> {
    const { session, worlds } = this.#client;
    if (session === null || session.id === this.#session) return;
    this.#session = session.id;
    this.#pictures.watchers.clear(); // what comes now is of another world
    this.#places = new SavedPlaces(this.#storage, session.model);
    const saves = worlds.may.includes("save");
    this.#fork.hidden = !worlds.may.includes("fork");
    this.#save.hidden = this.#name.hidden = this.#list.hidden = !saves;
    this.#lasts.hidden = worlds.lasting || !saves;
    this.#say("");
    if (!worlds.lasting && this.#places.all.length) {
      // Those of earlier sessions ended with them.
      const there = new Set((await worlds.list().catch(() => ({ worlds: [] }))).worlds.map(({ id }) => id));
      for (const { id } of this.#places.all) if (!there.has(id)) this.#places.remove(id);
    }
    for (const { id, deleted } of this.#places.all) if (deleted && !this.#deleted.has(id)) void this.#forget(id);
    this.#show();
  }

  /** A button that loads the newest place; null if there is none. */
  offer(): HTMLButtonElement | null {
    const place = this.#client.worlds.lasting && this.#places.all.find(({ deleted }) => !deleted);
    if (!place) return null;
    const button = element("button", { type: "button", id: "load-place" }, fillIn(SLOTS.load, { name: place.name }));
    button.addEventListener("click", () => void this.#do(button, () => this.#load(place)));
    return button;
  }

  // ---- what the user does --------------------------------------------------------------------------------------------

  async #saveHere(): Promise<void> {
    const name = this.#name.value.trim() || this.#name.placeholder;
    const film = new PlaceFilm(this.#pictures);
    const { id, step, saved_at, expires } = await this.#client.worlds.save(name).catch((error: unknown) => {
      film.stop();
      throw error;
    });
    const now = Date.now();
    const places = this.#places;
    places.add({ id, name, picture: "", savedAt: now, expires: now + 1000 * (expires - saved_at) });
    film.of(step, (picture) => {
      places.change(id, { picture });
      this.#list.querySelector(`[data-place="${id}"] :is(img, .blank)`)?.replaceWith(imageOf(picture));
    });
    this.#name.value = "";
    this.#show();
    this.#list.scrollTo({ left: 0 });
    this.#list.scrollIntoView({ block: "nearest" });
    if (document.activeElement === this.#name) this.#save.focus(); // a text field would take the keys that play
    this.#say(fillIn(SLOTS.saved, { name }));
  }

  async #load({ id, name }: SavedPlace): Promise<void> {
    try {
      await this.#worlds.restore(id, name);
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "no_such_world") throw error;
      this.#places.remove(id);
      this.#show();
      throw error;
    }
  }

  async #linkFromHere(): Promise<void> {
    const forked = this.#client.worlds.fork();
    const address = forked.then(({ fork }) => forkAddress(location.href, fork));
    // Safari lets a page copy only what it asks for within the click, so it gets a promise.
    const text = address.then((link) => new Blob([link], { type: "text/plain" }));
    const copied = copy(text).then(
      () => true,
      () => false, // the browser refused, or the page is plain http and has no clipboard
    );
    const { expires } = await forked;
    const when = describeTime(new Date(1000 * expires));
    const good = fillIn(this.#client.worlds.lasting ? SLOTS.good : SLOTS.goodInSession, { when });
    const only = isLoopback(location.href) ? ` ${SLOTS.hereOnly}` : "";
    const done = await copied;
    this.#notice.textContent = `${done ? SLOTS.copied : SLOTS.copyYourself} ${SLOTS.goes} ${good}${only}`;
    this.#notice.scrollIntoView({ block: "nearest" });
    if (done) return;
    this.#link.value = await address;
    this.#link.hidden = false;
    this.#link.focus();
    this.#link.select();
  }

  #delete({ id, name }: SavedPlace): void {
    this.#places.change(id, { deleted: true });
    const end = (): void => {
      void this.#forget(id);
      this.#show();
    };
    this.#deleted.set(id, setTimeout(end, UNDO_FOR));
    this.#show(id);
    this.#say(fillIn(SLOTS.deleted, { name }));
  }

  #keep({ id, name }: SavedPlace): void {
    clearTimeout(this.#deleted.get(id));
    this.#deleted.delete(id);
    this.#places.change(id, { deleted: false });
    this.#show(id);
    this.#say(fillIn(SLOTS.kept, { name }));
  }

  async #forget(id: string): Promise<void> {
    clearTimeout(this.#deleted.get(id));
    this.#deleted.delete(id);
    try {
      await this.#client.worlds.forget(id);
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== "no_such_world") return; // it is forgotten in the next session
    }
    this.#places.remove(id);
  }

  /** One thing at a time; what the server refuses is said. The button keeps the keyboard's focus. */
  async #do(button: HTMLElement, what: () => Promise<void>): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    button.ariaBusy = "true";
    this.#say("");
    try {
      await what();
    } catch (error) {
      this.#refusal.show(error);
    }
    this.#busy = false;
    button.ariaBusy = null;
  }

  // ---- what is shown -------------------------------------------------------------------------------------------------

  /** `focus`: the place whose button gets the keyboard, if the list had it. */
  #show(focus?: string): void {
    const had = this.#list.contains(document.activeElement);
    const cards = this.#places.all.filter(({ id, deleted }) => !deleted || this.#deleted.has(id)).map((place) => this.#card(place));
    this.#list.replaceChildren(...cards);
    if (had) (cards.find(({ dataset }) => dataset.place === focus)?.querySelector("button") ?? this.#save).focus();
    this.#showAges();
    // From the first paint of the next visit it has the room that it has now.
    this.#section.style.minHeight = "";
    this.#storage.set("slots", `${this.#section.offsetHeight}px`);
  }

  #card(place: SavedPlace): HTMLElement {
    const { id, name, picture, savedAt } = place;
    const card = element("li", { "data-place": id });
    if (this.#deleted.has(id)) {
      const undo = element("button", { type: "button", class: "undo" }, SLOTS.undo);
      undo.addEventListener("click", () => this.#keep(place));
      card.append(element("span", { dir: "auto" }, fillIn(SLOTS.deleted, { name })), undo);
      return card;
    }
    const image = imageOf(picture);
    const age = element("span", { class: "age", "data-saved": savedAt });
    const load = element("button", { type: "button", class: "preset" }, image, element("span", { dir: "auto" }, name), age);
    load.title = fillIn(SLOTS.load, { name });
    load.addEventListener("click", () => void this.#do(load, () => this.#load(place)));
    const label = fillIn(SLOTS.delete, { name });
    const remove = element("button", { type: "button", class: "delete", title: label, "aria-label": label }, "×");
    remove.addEventListener("click", () => this.#delete(place));
    card.append(load, remove);
    return card;
  }

  #showAges(): void {
    this.#name.placeholder = describeTime(new Date());
    for (const age of this.#list.querySelectorAll<HTMLElement>(".age"))
      age.textContent = describeAge(Date.now() - Number(age.dataset.saved));
  }

  /** What was done; without words nothing is said of what was done before. */
  #say(words: string): void {
    this.#status.textContent = words;
    this.#notice.textContent = "";
    this.#refusal.hide();
    this.#link.hidden = true;
  }
}

const copy = async (text: Promise<Blob>): Promise<void> => navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);

const describeTime = (time: Date): string =>
  new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", hour: "numeric", minute: "2-digit" }).format(time);

function describeAge(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  const [length, unit] = UNITS.find(([least]) => seconds >= least) ?? [Number.POSITIVE_INFINITY, "second"];
  return new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" }).format(-Math.floor(seconds / length), unit);
}

/** The page's policy allows pictures of its own, and no `data:`. */
function imageOf(picture: string): HTMLElement {
  if (!picture) return element("span", { class: "blank", "aria-hidden": "true" });
  const bytes = Uint8Array.from(atob(picture), (each) => each.charCodeAt(0));
  const src = URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  const image = element("img", { src, alt: "" });
  image.addEventListener("load", () => URL.revokeObjectURL(src));
  return image;
}
