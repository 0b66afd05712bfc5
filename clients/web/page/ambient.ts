/** The glow around the picture: the colours of its edges, looked at now and then. */

const INTERVAL = 2000;
/** What a worker has drawn shows in the canvas a moment later; until then it is black. */
const BLACK_AGAIN = 250;
/** The picture is made this small; each of its outer rows and columns becomes one colour. */
const WIDTH = 8;
const HEIGHT = 6;

/** Lets `hero` glow in the colours of the picture on `canvas()`. Style sheets read `--glow-left`, `-right`, `-top` and `-bottom`. */
export class Ambient {
  #hero: HTMLElement;
  #canvas: () => HTMLCanvasElement | null;
  #small: CanvasRenderingContext2D | null;
  /** When the picture is looked at again. */
  #next = 0;

  constructor(hero: HTMLElement, canvas: () => HTMLCanvasElement | null) {
    this.#hero = hero;
    this.#canvas = canvas;
    const small = Object.assign(document.createElement("canvas"), { width: WIDTH, height: HEIGHT });
    this.#small = small.getContext("2d", { alpha: false, willReadFrequently: true });
  }

  /** A picture was drawn. */
  refresh(now: number = performance.now()): void {
    const canvas = this.#canvas();
    if (this.#small === null || canvas === null || now < this.#next || document.hidden) return;
    try {
      this.#small.drawImage(canvas, 0, 0, WIDTH, HEIGHT);
    } catch {
      this.#small = null; // a browser that does not let the page read the canvas has no glow; the picture needs none
      return;
    }
    const { data } = this.#small.getImageData(0, 0, WIDTH, HEIGHT);
    const black = data.every((value, i) => i % 4 === 3 || value === 0);
    this.#next = now + (black ? BLACK_AGAIN : INTERVAL);
    if (black) return; // a black glow is a stain on a light page
    const edges: readonly (readonly [string, Edge])[] = [
      ["left", (x) => x === 0],
      ["right", (x) => x === WIDTH - 1],
      ["top", (_, y) => y === 0],
      ["bottom", (_, y) => y === HEIGHT - 1],
    ];
    for (const [name, isOf] of edges) this.#hero.style.setProperty(`--glow-${name}`, average(data, isOf));
  }
}

type Edge = (x: number, y: number) => boolean;

function average(data: Uint8ClampedArray, isOf: Edge): string {
  const means = [0, 1, 2].map((channel) => {
    const values = data.filter((_, i) => i % 4 === channel && isOf((i >> 2) % WIDTH, Math.floor(i / 4 / WIDTH)));
    return Math.round(values.reduce((sum, value) => sum + value, 0) / values.length);
  });
  return `rgb(${means.join(" ")})`;
}
