/** The picture of a saved step: what the page shows may be seconds behind the world that is saved, and what it shows next may be ahead of it. */
import type { Presented } from "../src/index.ts";
import { largeCanvas, type Pictures } from "./pictures.ts";

/** Pixels of a thumbnail's width, twice what a card shows. */
const WIDTH = 208;
/** Pictures that are kept until the step is known; then each second one goes. */
const MOST = 64;
/** The picture that was there at the beginning: older than all steps to come. */
const BEFORE = -1;

export class PlaceFilm {
  #pictures: Pictures;
  #shots = new Map<number, HTMLCanvasElement>();
  #step: number | null = null;
  #found: (picture: string) => void = () => {};

  /** Begins with what the large picture shows. */
  constructor(pictures: Pictures) {
    this.#pictures = pictures;
    this.#take(BEFORE);
    pictures.watchers.add(this.#drawn);
  }

  /** The world of this step is saved. `found` gets the newest picture that is not after it, and a newer one when it comes. */
  of(step: number, found: (picture: string) => void): void {
    this.#step = step;
    this.#found = found;
    this.#tell();
    if (Math.max(...this.#shots.keys()) > step) this.stop();
  }

  stop(): void {
    this.#pictures.watchers.delete(this.#drawn);
    this.#shots.clear();
  }

  #drawn = ({ step }: Presented): void => {
    const saved = this.#step;
    if (saved === null || step <= saved) this.#take(step);
    if (saved === null || step < saved) return;
    this.#tell();
    if (step > saved) this.stop();
  };

  #take(step: number): void {
    const shot = thumbnail();
    if (shot === null) return;
    this.#shots.delete(step);
    this.#shots.set(step, shot);
    if (this.#shots.size > MOST) [...this.#shots.keys()].forEach((each, i) => i % 2 && this.#shots.delete(each));
  }

  #tell(): void {
    const step = [...this.#shots.keys()].findLast((each) => each <= (this.#step as number));
    const shot = step !== undefined && this.#shots.get(step);
    if (shot) this.#found(jpegOf(shot));
  }
}

/** What the large picture shows now, small; null if there is none. */
function thumbnail(): HTMLCanvasElement | null {
  const canvas = largeCanvas();
  if (canvas === null) return null;
  const height = Math.round((WIDTH * canvas.height) / canvas.width);
  const small = Object.assign(document.createElement("canvas"), { width: WIDTH, height });
  small.getContext("2d", { alpha: false })?.drawImage(canvas, 0, 0, WIDTH, height);
  return small;
}

/** In base64; empty if the browser does not let the page read it. */
function jpegOf(canvas: HTMLCanvasElement): string {
  try {
    return canvas.toDataURL("image/jpeg", 0.8).replace(/.*,/, "");
  } catch {
    return "";
  }
}
