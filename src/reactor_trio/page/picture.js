/**
 * Draws the frames of one video track on its canvas, one at a time. Frames that arrive meanwhile do not queue up: the
 * newest is kept, so that a slow device shows fewer pictures but never older ones.
 *
 * While sound plays, it is the clock: a frame is decoded at once but drawn when its presentation time is heard. Those
 * behind it wait, and of several whose time has come only the newest is decoded. What waits is bounded, in number and in
 * time: a quarter of a second after its arrival a frame is drawn even if its sound is not heard yet.
 *
 * A JPEG is decoded off the main thread and drawn when that is done. A raw frame needs no decoding but costs the main
 * thread a pass over its pixels, so it waits for the browser to ask for a picture: else a fast stream would leave the
 * thread no time for anything but arriving frames.
 */

const LONGEST_HOLD = 250;
const MOST_HELD = 32;
const EARLY = 8; // half the time between two pictures of most screens

export class Picture {
  #canvas;
  #context;
  #track;
  #listener;
  #heard;
  #busy = false;
  #waiting = [];
  #closed = false;
  #image = null;
  #cost = 0;

  /**
   * `listener` is {shown(frame), skipped(frame), failed(frame, message)}; `heard(now)` gives the presentation time in ms
   * that is heard at `now`, or null while there is no sound.
   */
  constructor(canvas, track, listener, heard = () => null) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#listener = listener;
    this.#heard = heard;
    this.describe(track);
  }

  /** The track has a new size or codec from the next frame on. */
  describe(track) {
    this.#track = track;
  }

  /** Draws the frame in its turn, unless a newer one takes it. */
  async show(frame) {
    this.#waiting.push({ frame, track: this.#track, arrived: performance.now() });
    if (this.#busy) {
      this.#thin();
      return;
    }
    this.#busy = true;
    while (this.#waiting.length) {
      this.#thin();
      await this.#one(this.#waiting.shift());
    }
    this.#busy = false;
  }

  /** The picture that is shown, as a PNG of its own size. */
  snapshot() {
    return new Promise((resolve, reject) => {
      this.#canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("there is no picture"))), "image/png");
    });
  }

  /** Draws nothing more, also not what is being decoded; the last picture stays. */
  close() {
    this.#closed = true;
    this.#waiting = [];
  }

  /** Keeps of those that wait the newest that would be on time, and those after it. */
  #thin() {
    const now = performance.now();
    while (this.#waiting.length > 1 && (this.#waiting.length > MOST_HELD || this.#wait(this.#waiting[1], now) <= this.#cost)) {
      this.#listener.skipped(this.#waiting.shift().frame);
    }
  }

  /** Milliseconds from `now` until the frame is to be drawn, 0 if that is at once. */
  #wait({ frame, arrived }, now) {
    const heard = this.#heard(now);
    if (heard === null) return 0;
    return Math.max(0, Math.min(frame.ptsUs / 1000 - heard, arrived + LONGEST_HOLD - now));
  }

  async #turn(entry) {
    while (!this.#closed && this.#wait(entry, performance.now()) > EARLY) await new Promise(requestAnimationFrame);
  }

  async #one(entry) {
    const { frame, track } = entry;
    if (track.codec === "jpeg") await this.#jpeg(frame, entry);
    else if (track.codec === "raw") await this.#raw(frame, track, entry);
    else this.#listener.failed(frame, `this page cannot show ${track.codec}`);
  }

  async #jpeg(frame, entry) {
    const began = performance.now();
    let bitmap;
    try {
      bitmap = await createImageBitmap(new Blob([frame.payload], { type: "image/jpeg" }));
    } catch (error) {
      this.#listener.failed(frame, `not a JPEG that this browser can decode: ${error.message}`);
      return;
    }
    this.#cost += (performance.now() - began - this.#cost) / 8;
    await this.#turn(entry);
    this.#draw(frame, bitmap.width, bitmap.height, () => this.#context.drawImage(bitmap, 0, 0));
    bitmap.close();
  }

  async #raw(frame, { width, height }, entry) {
    const { payload } = frame;
    if (payload.length !== width * height * 3) {
      this.#listener.failed(frame, `${payload.length} bytes are no RGB picture of ${width}×${height}`);
      return;
    }
    await new Promise(requestAnimationFrame);
    await this.#turn(entry);
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
