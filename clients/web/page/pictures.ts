/** The model's pictures: a canvas for each video track, the first one large. Canvases keep their picture and place between sessions. */
import { type Client, type Presented, Replay, type SessionInfo, type View } from "../src/index.ts";
import { byId, ENLARGE, element, icon, within } from "./dom.ts";
import type { Room } from "./room.ts";
import { fillIn, STRINGS } from "./strings.ts";

/** Seconds that can be saved afterwards. */
const KEPT_SECONDS = 10;

/** A track's canvas in the page. */
export interface Place {
  readonly figure: HTMLElement;
  readonly view: View;
  readonly replay: Replay;
}

export class Pictures {
  /** Called for each picture that the large canvas shows. */
  readonly watchers = new Set<(picture: Presented) => void>();
  #client: Client;
  #places = new Map<string, Place>();
  #shown: (canvas: HTMLCanvasElement, picture: Presented) => void;
  #lead: boolean;
  #room: Room;
  /** Attached before the first session, whose first track it shows: without a view the client would ask for no pictures. */
  #first: Place;

  /** `room` is that of the large picture; `shown` is called for each drawn picture. */
  constructor(client: Client, lead: boolean, room: Room, shown: (canvas: HTMLCanvasElement, picture: Presented) => void) {
    this.#client = client;
    this.#lead = lead;
    this.#room = room;
    this.#shown = shown;
    this.#first = this.#open();
    byId("hero").prepend(this.#first.figure);
  }

  /** What is at the large canvas, or null. */
  get large(): Place | null {
    const canvas = largeCanvas();
    return canvas === null ? null : (this.#places.get(canvas.dataset.track ?? "") ?? null);
  }

  get lead(): boolean {
    return this.#lead;
  }

  set lead(on: boolean) {
    this.#lead = on;
    for (const { view } of [this.#first, ...this.#places.values()]) view.lead = on;
  }

  /** Shows the tracks of a session that begins. */
  beginSession({ model, tracks }: SessionInfo): void {
    const outputs = tracks.filter(({ kind, direction }) => kind === "video" && direction === "out");
    const names = outputs.map(({ name }) => name);
    const [first] = outputs;
    this.#room.begin(model, first?.width && first.height ? first.width / first.height : undefined);
    const places = new Map(names.map((name, i) => [name, this.#places.get(name) ?? this.#open(name, i === 0 ? this.#first : null)]));
    for (const [name, { figure, view }] of this.#places) {
      if (places.has(name)) continue;
      figure.remove();
      view.release();
    }
    this.#places = places;
    if (!this.#isUsed(this.#first)) this.#first.figure.remove();
    const figures = [...places.values()].map(({ figure }) => figure);
    if (figures[0]) byId("hero").prepend(figures[0]);
    for (const figure of figures.slice(1)) figure.hidden = !figure.classList.contains("drawn"); // until its first picture
    byId("others").replaceChildren(...figures.slice(1));
    lookForPair();
    byId("notes").hidden = names.length > 0;
    byId("notes").textContent = names.length ? "" : STRINGS.noPictureTrack;
  }

  /** A figure with an attached canvas: for the track `name`, in `used` if that shows no other track; without a name for the first track. */
  #open(name?: string, used: Place | null = null): Place {
    const figure = used !== null && !this.#isUsed(used) ? used.figure : pictureFigure();
    const canvas = within(figure, "canvas", HTMLCanvasElement);
    const replay = new Replay(KEPT_SECONDS);
    const options = { lead: this.#lead, replay, onPresented: (picture: Presented) => this.#drawn(canvas, picture) };
    if (name === undefined) return { figure, replay, view: this.#client.attach(canvas, options) };
    canvas.dataset.track = name;
    canvas.setAttribute("aria-label", fillIn(STRINGS.videoOf, { name }));
    within(figure, "figcaption").textContent = name;
    const enlarge = within(figure, ".enlarge");
    enlarge.title = fillIn(STRINGS.enlarge, { name });
    enlarge.setAttribute("aria-label", enlarge.title);
    return { figure, replay, view: this.#client.attach(canvas, { ...options, track: name }) };
  }

  #drawn(canvas: HTMLCanvasElement, picture: Presented): void {
    const figure = canvas.parentElement as HTMLElement;
    if (!figure.classList.contains("drawn")) {
      figure.classList.add("drawn");
      figure.hidden = false;
      lookForPair();
    }
    if (canvas === largeCanvas()) {
      this.#room.take(picture.width / picture.height);
      this.watchers.forEach((watch) => watch(picture));
    }
    this.#shown(canvas, picture);
  }

  #isUsed({ figure }: Place): boolean {
    return within(figure, "canvas").dataset.track !== undefined;
  }
}

export const largeCanvas = (): HTMLCanvasElement | null => byId("hero").querySelector("canvas");

/** Two pictures share the stage; more are small ones beside a large one. */
const lookForPair = (): boolean =>
  byId("stage").toggleAttribute("data-pair", byId("others").querySelectorAll(":scope > :not([hidden])").length === 1);

function pictureFigure(): HTMLElement {
  const canvas = element("canvas", { width: 640, height: 360, role: "img", "aria-label": STRINGS.video, tabindex: -1 });
  const enlarge = element("button", { type: "button", class: "enlarge" }, icon([ENLARGE]));
  const figure = element("figure", {}, canvas, element("figcaption"), enlarge);
  enlarge.addEventListener("click", ({ detail }) => {
    const large = largeCanvas()?.parentElement;
    if (!large) return;
    figure.before(large);
    byId("hero").prepend(figure);
    if (detail === 0) within(large, ".enlarge").focus(); // the click came from the keyboard, so keep its focus on this control
  });
  return figure;
}
