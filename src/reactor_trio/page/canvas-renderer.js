/** Renders the video of one session after the other on a canvas; the same in a worker and on the page. */
import { Player } from "./player.js";

export class CanvasRenderer {
  #canvas;
  #context;
  #now;
  #emit;
  #player = null;

  /** `emit(session, event, ...args)` gets the events of the player's listener; `now()` is the page's clock. */
  constructor(canvas, now, emit) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#now = now;
    this.#emit = emit;
  }

  /** Begins a session. Its events carry the number `session`, so that the page can ignore late events of earlier sessions. */
  begin(session, track, options) {
    this.#player?.close();
    const names = ["shown", "skipped", "failed", "dealt", "keyframe", "trouble"];
    const listener = Object.fromEntries(names.map((name) => [name, (...args) => this.#emit(session, name, ...args)]));
    this.#player = new Player(this, track, listener, { now: this.#now, ...options });
  }

  describe(track) {
    this.#player?.describe(track);
  }

  show(frame, arrived, clock) {
    this.#player?.show(frame, arrived, clock);
  }

  smooth(on) {
    this.#player?.smooth(on);
  }

  preferSoftware() {
    this.#player?.preferSoftware();
  }

  end() {
    this.#player?.close();
    this.#player = null;
  }

  /** Draws the top left `width`×`height` of a decoded image, because codecs pad to even sizes at the right and bottom. */
  draw(image, width, height) {
    // Setting the size clears the canvas, so set it only if it changes.
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    if (image instanceof ImageData) this.#context.putImageData(image, 0, 0);
    else this.#context.drawImage(image, 0, 0, width, height, 0, 0, width, height);
  }

  /** The picture on the canvas, as PNG. */
  async snapshot() {
    if (this.#canvas.convertToBlob) return this.#canvas.convertToBlob({ type: "image/png" });
    return new Promise((resolve) => { this.#canvas.toBlob(resolve, "image/png"); });
  }
}
