/**
 * Draws the frames of one video track on its canvas, one at a time. Frames that arrive meanwhile do not queue up: the
 * newest is kept, so that a slow device shows fewer pictures but never older ones.
 *
 * A JPEG is decoded off the main thread and drawn when that is done. A raw frame needs no decoding but costs the main
 * thread a pass over its pixels, so it waits for the browser to ask for a picture: else a fast stream would leave the
 * thread no time for anything but arriving frames.
 */
export class Picture {
  #canvas;
  #context;
  #track;
  #listener;
  #busy = false;
  #waiting = null;
  #closed = false;
  #image = null;

  /** `listener` is {shown(frame), skipped(frame), failed(frame, message)}. */
  constructor(canvas, track, listener) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#listener = listener;
    this.describe(track);
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track) {
    this.#track = track;
  }

  /** Draws the frame, unless a newer one comes before its turn. */
  async show(frame) {
    if (this.#busy) {
      if (this.#waiting) this.#listener.skipped(this.#waiting.frame);
      this.#waiting = { frame, track: this.#track };
      return;
    }
    this.#busy = true;
    for (let next = { frame, track: this.#track }; next; ) {
      await this.#one(next.frame, next.track);
      next = this.#waiting;
      this.#waiting = null;
    }
    this.#busy = false;
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    this.#closed = true;
    this.#waiting = null;
  }

  async #one(frame, track) {
    if (track.codec === "jpeg") await this.#jpeg(frame);
    else if (track.codec === "raw") await this.#raw(frame, track);
    else this.#listener.failed(frame, `this page cannot show ${track.codec}`);
  }

  async #jpeg(frame) {
    let bitmap;
    try {
      bitmap = await createImageBitmap(new Blob([frame.payload], { type: "image/jpeg" }));
    } catch (error) {
      this.#listener.failed(frame, `not a JPEG that this browser can decode: ${error.message}`);
      return;
    }
    this.#draw(frame, bitmap.width, bitmap.height, () => this.#context.drawImage(bitmap, 0, 0));
    bitmap.close();
  }

  async #raw(frame, { width, height }) {
    const { payload } = frame;
    if (payload.length !== width * height * 3) {
      this.#listener.failed(frame, `${payload.length} bytes are no RGB picture of ${width}×${height}`);
      return;
    }
    await new Promise(requestAnimationFrame);
    if (this.#image?.width !== width || this.#image?.height !== height) this.#image = new ImageData(width, height);
    const pixels = new Uint32Array(this.#image.data.buffer);
    for (let i = 0, p = 0; i < pixels.length; i++, p += 3) {
      pixels[i] = 0xff000000 | (payload[p + 2] << 16) | (payload[p + 1] << 8) | payload[p];
    }
    this.#draw(frame, width, height, () => this.#context.putImageData(this.#image, 0, 0));
  }

  #draw(frame, width, height, paint) {
    if (this.#closed) return;
    // Setting a canvas's size clears it, so only when it changes.
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
      this.#canvas.classList.toggle("pixelated", Math.max(width, height) <= 128);
    }
    paint();
    this.#listener.shown(frame);
  }
}
