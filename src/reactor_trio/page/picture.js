/**
 * Draws the frames of one video track on its canvas.
 *
 * A JPEG is decoded off the main thread, one at a time. Frames that arrive meanwhile do not queue up: the newest is
 * kept, so that a slow device shows fewer pictures but never older ones.
 */
export class Picture {
  #canvas;
  #context;
  #track;
  #listener;
  #decoding = false;
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

  show(frame) {
    if (this.#track.codec === "raw") this.#raw(frame);
    else if (this.#track.codec === "jpeg") this.#jpeg(frame);
    else this.#listener.failed(frame, `this page cannot show ${this.#track.codec}`);
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    this.#closed = true;
    this.#waiting = null;
  }

  async #jpeg(frame) {
    if (this.#decoding) {
      if (this.#waiting) this.#listener.skipped(this.#waiting);
      this.#waiting = frame;
      return;
    }
    this.#decoding = true;
    for (let next = frame; next; ) {
      try {
        const bitmap = await createImageBitmap(new Blob([next.payload], { type: "image/jpeg" }));
        if (!this.#closed) this.#draw(next, bitmap.width, bitmap.height, () => this.#context.drawImage(bitmap, 0, 0));
        bitmap.close();
      } catch (error) {
        this.#listener.failed(next, `not a JPEG that this browser can decode: ${error.message}`);
      }
      next = this.#waiting;
      this.#waiting = null;
    }
    this.#decoding = false;
  }

  #raw(frame) {
    const { width, height } = this.#track;
    const { payload } = frame;
    if (payload.length !== width * height * 3) {
      this.#listener.failed(frame, `${payload.length} bytes are no RGB picture of ${width}×${height}`);
      return;
    }
    if (this.#image?.width !== width || this.#image?.height !== height) this.#image = new ImageData(width, height);
    const pixels = new Uint32Array(this.#image.data.buffer);
    for (let i = 0, p = 0; i < pixels.length; i++, p += 3) {
      pixels[i] = 0xff000000 | (payload[p + 2] << 16) | (payload[p + 1] << 8) | payload[p];
    }
    this.#draw(frame, width, height, () => this.#context.putImageData(this.#image, 0, 0));
  }

  #draw(frame, width, height, paint) {
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
