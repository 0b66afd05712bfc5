/** A small drawing for each state without a picture. They are simple lines in the page's colours; screen readers skip them. */

import { vector } from "./dom.ts";

export type ArtName = "connecting" | "loading" | "warming" | "camera" | "queue" | "lost" | "ended" | "failed" | "locked" | "viewing";

const RING = 2 * Math.PI * 26;

/** Lines of each drawing: the element's class, its tag, and its attributes. The canvas is 112 by 72. */
type Line = readonly [style: string, tag: "path" | "circle" | "rect", attributes: { readonly [name: string]: string | number }];

const screen: Line = ["faint", "rect", { x: 20, y: 8, width: 72, height: 46, rx: 6 }];
const dot = (style: string, x: number): Line => [style, "circle", { cx: x, cy: 31, r: 3.5 }];
const person = (style: string, x: number): readonly Line[] => [
  [style, "circle", { cx: x, cy: 24, r: 7 }],
  [style, "path", { d: `M${x - 12} 54c0-16 24-16 24 0` }],
];

const DRAWINGS: { readonly [Name in ArtName]: readonly Line[] } = {
  connecting: [screen, dot("full breathe", 42), dot("full breathe late", 56), dot("full breathe later", 70)],
  loading: [
    ["faint", "circle", { cx: 56, cy: 36, r: 26 }],
    ["strong progress", "circle", { cx: 56, cy: 36, r: 26 }],
  ],
  warming: [screen, ["strong turn", "path", { d: "M56 19a12 12 0 1 1-12 12" }]],
  camera: [
    ["strong", "rect", { x: 22, y: 16, width: 46, height: 40, rx: 8 }],
    ["strong", "path", { d: "m68 32 22-12v32L68 40" }],
    ["", "circle", { cx: 45, cy: 36, r: 8 }],
  ],
  queue: [...person("faint", 24), ...person("faint", 56), ...person("strong", 88)],
  lost: [
    ["", "path", { d: "M38 52 28 42a14 14 0 0 1 20-20l6 6" }],
    ["", "path", { d: "m74 20 10 10a14 14 0 0 1-20 20l-6-6" }],
    ["strong breathe", "path", { d: "M46 14l2 8M32 26l8 2M66 58l-2-8M80 46l-8-2" }],
  ],
  ended: [screen, ["", "path", { d: "M46 22l20 18M66 22 46 40M40 64h32" }]],
  failed: [
    ["alarm", "path", { d: "M56 8 92 64H20z" }],
    ["alarm", "path", { d: "M56 28v16M56 54v.1" }],
  ],
  locked: [
    ["strong", "rect", { x: 34, y: 32, width: 44, height: 32, rx: 6 }],
    ["strong", "path", { d: "M44 32v-8a12 12 0 0 1 24 0v8" }],
    ["", "path", { d: "M56 45v7" }],
  ],
  viewing: [
    ["strong", "path", { d: "M16 36c20-30 60-30 80 0-20 30-60 30-80 0z" }],
    ["", "circle", { cx: 56, cy: 36, r: 10 }],
  ],
};

/** The drawing in `place`. It is made again only if its name changes. */
export class StateArt {
  #place: HTMLElement;
  #name: ArtName | null = null;

  constructor(place: HTMLElement) {
    this.#place = place;
  }

  /** `fraction` is how much of "loading" is done, from 0 to 1; null: the ring turns. */
  show(name: ArtName, fraction: number | null = null): void {
    if (name !== this.#name) this.#draw(name);
    const ring = this.#place.querySelector(".progress");
    if (!(ring instanceof SVGElement)) return;
    ring.classList.toggle("turn", fraction === null);
    ring.style.strokeDasharray = `${RING}`;
    ring.style.strokeDashoffset = `${RING * (1 - (fraction ?? 0.25))}`;
  }

  #draw(name: ArtName): void {
    this.#name = name;
    this.#place.dataset.art = name;
    const drawing = vector("svg", { viewBox: "0 0 112 72" });
    for (const [style, tag, attributes] of DRAWINGS[name])
      drawing.append(vector(tag, style ? { class: style, ...attributes } : attributes));
    this.#place.replaceChildren(drawing);
  }
}
