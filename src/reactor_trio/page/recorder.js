/**
 * Records the shown pictures to a file. The recorder draws each picture again, on a canvas of the first picture's size,
 * because file formats do not support a stream whose pictures change in size. The file contains sound if sound was on when
 * the recording began.
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
 * The first file type that this browser can write, MP4 before WebM; null if there is none. Without `sound` the type names no
 * audio codec, because Firefox would wait for sound, and neither write nor stop.
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

/** `crafter-20260131-140509.png`: a file name that every system accepts. */
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
   * Begins to record at once. `source` is the canvas, `audio` is {stream, close} or null. `listener` is {done(blob),
   * failed(message)}: `done` is called once after the end, with the recorded data; `failed` before it, if an error ended the
   * recording. Throws if this browser cannot record.
   */
  constructor(source, audio, listener) {
    const type = globalThis.MediaRecorder ? chooseType((candidate) => MediaRecorder.isTypeSupported(candidate), audio !== null) : null;
    if (type === null) throw new Error("this browser cannot record video");
    this.source = source;
    this.#audio = audio;
    this.#listener = listener;
    // Most encoders need even sizes; the picture keeps its size, at the top left.
    const { width, height } = source;
    this.#canvas = Object.assign(document.createElement("canvas"), { width: width + (width % 2), height: height + (height % 2) });
    this.size = { width, height };
    this.#context = this.#canvas.getContext("2d", { alpha: false });
    const video = this.#canvas.captureStream(0);
    [this.#track] = video.getVideoTracks();
    const asked = this.#track.requestFrame ? this.#track : video; // Firefox has the method on the stream
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

  /** A picture was shown. Records it in the next animation frame, when the canvas certainly shows it. */
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
    this.#listener.failed("the file has reached 1 GiB; the recording ends and is saved");
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
