/** Renders the video of one session after the other on a canvas; the same in a worker and on the page. */
import type { TrackDescription } from "../wire/messages.ts";
import type { DecodedImage } from "./decoders.ts";
import type { HeardTime, PlayerFrame, PlayerListener, PlayerOptions } from "./player.ts";
import { Player } from "./player.ts";

/** The methods of a renderer, here or in a worker. */
export interface Renderer {
  begin(session: number, track: TrackDescription, options: PlayerOptions): void;
  describe(track: TrackDescription): void;
  show(frame: PlayerFrame, arrived: number, clock: HeardTime): void;
  smooth(on: boolean): void;
  preferSoftware(): void;
  end(): void;
  snapshot(): Promise<Blob>;
  grab(): Promise<ImageBitmap>;
}

/** The methods that answer something. */
export type Question = "snapshot" | "grab";
export type Answer<Asked extends Question> = Awaited<ReturnType<Renderer[Asked]>>;

type Methods = Omit<Renderer, Question>;

/** A call of a renderer's method that answers nothing: the method's name, and its arguments. */
export type RendererCall<Name extends keyof Methods = keyof Methods> = {
  [Each in Name]: { readonly call: Each; readonly args: Parameters<Methods[Each]> };
}[Name];

/** Calls the method that `call` names. */
export function callRenderer<Name extends keyof Methods>(
  renderer: { [Each in keyof Methods]: (...args: Parameters<Methods[Each]>) => void },
  { call, args }: RendererCall<Name>,
): void {
  renderer[call](...args);
}

/** A message of the page to its worker: opens the renderer `id`, closes it, or calls a method of it. */
export type MessageToWorker = { readonly id: number } & (
  | { readonly canvas: OffscreenCanvas; readonly origin: number }
  | { readonly close: true }
  | { readonly call: Question; readonly request: number }
  | RendererCall
);

/** A message of the worker: it is ready, or an event of the renderer `id`, or its answer to a request. */
export type MessageFromWorker =
  | "ready"
  | { readonly id: number; readonly session: number; readonly event: PlayerEvent }
  | { readonly id: number; readonly request: number; readonly answer: Answer<Question> }
  | { readonly id: number; readonly request: number; readonly error: string };

/** A call of the player's listener: the method's name, and its arguments. */
export type PlayerEvent = { [Name in keyof PlayerListener]: [name: Name, ...args: Parameters<PlayerListener[Name]>] }[keyof PlayerListener];

const EVENTS: (keyof PlayerListener)[] = ["shown", "skipped", "failed", "dealt", "keyframe", "trouble"];

export type Emit = (session: number, ...event: PlayerEvent) => void;

export class CanvasRenderer implements Renderer {
  #canvas: HTMLCanvasElement | OffscreenCanvas;
  #context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
  #now: () => number;
  #emit: Emit;
  #player: Player | null = null;

  /** `emit(session, event, ...args)` gets the events of the player's listener; `now()` is the page's clock. */
  constructor(canvas: HTMLCanvasElement | OffscreenCanvas, now: () => number, emit: Emit) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
    this.#now = now;
    this.#emit = emit;
  }

  /** Begins a session. Its events carry the number `session`, so that the page can ignore late events of earlier sessions. */
  begin(session: number, track: TrackDescription, options: PlayerOptions): void {
    this.#player?.close();
    const emit =
      (name: keyof PlayerListener) =>
      (...args: unknown[]) =>
        this.#emit(session, ...([name, ...args] as PlayerEvent));
    const listener = Object.fromEntries(EVENTS.map((name) => [name, emit(name)])) as unknown as PlayerListener;
    this.#player = new Player(this, track, listener, { now: this.#now, ...options });
  }

  describe(track: TrackDescription): void {
    this.#player?.describe(track);
  }

  show(frame: PlayerFrame, arrived: number, clock: HeardTime): void {
    this.#player?.show(frame, arrived, clock);
  }

  smooth(on: boolean): void {
    this.#player?.smooth(on);
  }

  preferSoftware(): void {
    this.#player?.preferSoftware();
  }

  end(): void {
    this.#player?.close();
    this.#player = null;
  }

  /** Draws the top left `width`×`height` of a decoded image, because codecs pad to even sizes at the right and bottom. */
  draw(image: DecodedImage, width: number, height: number): void {
    // Setting the size clears the canvas, so set it only if it changes.
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    if (image instanceof ImageData) this.#context.putImageData(image, 0, 0);
    else this.#context.drawImage(image, 0, 0, width, height, 0, 0, width, height);
  }

  /** The picture on the canvas as it is now. In a hidden page a browser may not show on the canvas what a worker has drawn. */
  grab(): Promise<ImageBitmap> {
    return createImageBitmap(this.#canvas);
  }

  /** The picture on the canvas, as PNG. */
  async snapshot(): Promise<Blob> {
    const canvas = this.#canvas;
    if ("convertToBlob" in canvas) return canvas.convertToBlob({ type: "image/png" });
    return new Promise((resolve) => {
      canvas.toBlob(resolve as BlobCallback, "image/png");
    });
  }
}
