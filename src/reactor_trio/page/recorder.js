/**
 * Records what is shown to a file. Each shown picture is drawn once more, on a canvas of the size that the first one had:
 * a stream whose pictures change in size is more than the formats of files take. Sound is in it if it was on when the
 * recording began.
 */

const TYPES = [
  "video/mp4;codecs=avc1.42E01F,mp4a.40.2", "video/mp4;codecs=avc1,mp4a.40.2", "video/mp4;codecs=avc1,opus", "video/mp4;codecs=vp9,opus",
  "video/webm;codecs=vp9,opus", "video/webm;codecs=vp8,opus", "video/webm", "video/mp4",
];
const MAX_BYTES = 1 << 30;
const CHUNK_MS = 1000;
const BITS_PER_PIXEL = 5; // and second: 4.6 Mbit/s for 1280×720
const MIN_BITRATE = 1_500_000;

/**
 * The first type of file that this browser writes, MP4 before WebM; null if it writes none. Without sound it names no codec
 * for it: Firefox would wait for sound, and neither write nor stop.
 */
export function chooseType(isTypeSupported, sound = true) {
  const types = sound ? TYPES : TYPES.map((type) => type.replace(/,[^,]+$/, ""));
  return types.find((type) => isTypeSupported(type)) ?? null;
}

/** "mp4" or "webm". */
export function extension(type) {
  return /^video\/(\w+)/.exec(type)[1];
}

/** "0:07", "12:34", "1:00:00". */
export function describeTime(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** `crafter-20260131-140509.png`: a file's name that every system takes. */
export function fileName(model, ending, date = new Date()) {
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}${two(date.getMonth() + 1)}${two(date.getDate())}`;
  const time = `${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
  const name = model.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "reactor";
  return `${name}-${day}-${time}.${ending}`;
}

export class Recorder {
  #recorder;
  #requestPicture;
  #canvas;
  #context;
  #track;
  #audio;
  #drawRequest = null;
  #chunks = [];
  #size = 0;
  #listener;
  began = performance.now();

  /**
   * Begins at once. `source` is the canvas to record, `sound` is {stream, close} or null, `listener` {done(blob),
   * failed(message)}: one `done` after the end, with what there is, and `failed` before it if that was not meant. Throws if
   * this browser cannot record.
   */
  constructor(source, audio, listener) {
    const type = globalThis.MediaRecorder ? chooseType((candidate) => MediaRecorder.isTypeSupported(candidate), audio !== null) : null;
    if (type === null) throw new Error("this browser cannot record video");
    this.source = source;
    this.#audio = audio;
    this.#listener = listener;
    // Most encoders want even sizes; the picture stays as it is, at the top left.
    const { width, height } = source;
    this.#canvas = Object.assign(document.createElement("canvas"), { width: width + (width % 2), height: height + (height % 2) });
    this.size = { width, height };
    this.#context = this.#canvas.getContext("2d", { alpha: false });
    const video = this.#canvas.captureStream(0);
    [this.#track] = video.getVideoTracks();
    const asked = this.#track.requestFrame ? this.#track : video; // Firefox asks the stream
    this.#requestPicture = () => asked.requestFrame();
    const tracks = [this.#track, ...(audio?.stream.getAudioTracks() ?? [])];
    const videoBitsPerSecond = Math.max(MIN_BITRATE, BITS_PER_PIXEL * width * height);
    this.#recorder = new MediaRecorder(new MediaStream(tracks), { mimeType: type, videoBitsPerSecond });
    this.#recorder.addEventListener("dataavailable", ({ data }) => this.#addChunk(data));
    this.#recorder.addEventListener("error", ({ error }) => listener.failed(error?.message ?? "the browser's recorder failed"));
    this.#recorder.addEventListener("stop", () => this.#finish());
    this.#recorder.start(CHUNK_MS);
    this.#draw();
  }

  /** A picture is shown: it is recorded with the screen's next one, when it is surely to be seen on the canvas. */
  shown() {
    if (document.hidden) this.#draw();
    else this.#drawRequest ??= requestAnimationFrame(() => this.#draw());
  }

  stop() {
    if (this.#recorder.state !== "inactive") this.#recorder.stop();
  }

  #draw() {
    cancelAnimationFrame(this.#drawRequest);
    this.#drawRequest = null;
    if (this.#recorder.state !== "recording") return;
    try {
      this.#context.drawImage(this.source, 0, 0, this.size.width, this.size.height);
      this.#requestPicture();
    } catch (error) {
      this.#listener.failed(error.message);
      this.stop();
    }
  }

  #addChunk(data) {
    this.#chunks.push(data);
    this.#size += data.size;
    if (this.#size <= MAX_BYTES || this.#recorder.state === "inactive") return;
    this.#listener.failed("the file has reached 1 GiB; it is saved, and recording ends");
    this.stop();
  }

  #finish() {
    cancelAnimationFrame(this.#drawRequest);
    this.#track.stop();
    this.#audio?.close();
    this.#listener.done(new Blob(this.#chunks, { type: this.#recorder.mimeType }));
    this.#chunks = [];
  }
}
