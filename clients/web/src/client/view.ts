/** A view as the application has it, from `attach` on. What it asks for before the code that draws is loaded happens then. */
import type { CanvasTaker } from "./canvas-taker.ts";
import type { AttachOptions, Recording, RecordOptions, View } from "./types.ts";

export class CanvasView implements View {
  #loading: Promise<CanvasTaker>;
  /** Null until it is loaded. */
  #taker: CanvasTaker | null = null;
  #wanted: string;
  #lead: boolean;

  /** A promise of the taker may reject; who rejects it reports why. */
  constructor(taker: CanvasTaker | Promise<CanvasTaker>, { track = "", lead = true }: AttachOptions<string>) {
    this.#wanted = track;
    this.#lead = lead;
    this.#loading = Promise.resolve(taker);
    if (!(taker instanceof Promise)) this.#taker = taker;
    this.#then((loaded) => {
      this.#taker = loaded;
      loaded.lead = this.#lead;
    });
  }

  /** The track's name; "" while it is the first one of a model that is not known yet. */
  get track(): string {
    return this.#taker?.track ?? this.#wanted;
  }

  get width(): number {
    return this.#taker?.width ?? 0;
  }

  get height(): number {
    return this.#taker?.height ?? 0;
  }

  get lead(): boolean {
    return this.#lead;
  }

  set lead(on: boolean) {
    this.#lead = on;
    if (this.#taker !== null) this.#taker.lead = on;
  }

  async snapshot(): Promise<Blob> {
    return (await this.#loading).snapshot();
  }

  record(options?: RecordOptions): Recording {
    const began = performance.now();
    const recording = this.#loading.then((taker) => taker.record(options));
    const file = recording.then((begun) => begun.file);
    file.catch(() => {}); // whoever ignores a recording that fails causes no unhandled rejection
    return {
      began,
      file,
      stop: () => {
        recording.then(({ stop }) => stop()).catch(() => {}); // `file` rejects
        return file;
      },
    };
  }

  detach(): void {
    this.#then((taker) => taker.detach());
  }

  release(): void {
    this.#then((taker) => taker.release());
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** Calls now, or when it is loaded. */
  #then(call: (taker: CanvasTaker) => void): void {
    if (this.#taker !== null) call(this.#taker);
    else this.#loading.then(call, () => {});
  }
}
