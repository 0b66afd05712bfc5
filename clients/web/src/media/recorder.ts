/**
 * Records the shown pictures to a file. The recorder draws each picture again, on a canvas of the first picture's size,
 * because file formats do not support a stream whose pictures change in size. The file contains sound if sound was on when
 * the recording began.
 */

const TYPES = [
  "video/mp4;codecs=avc1.42E01F,mp4a.40.2",
  "video/mp4;codecs=avc1,mp4a.40.2",
  "video/mp4;codecs=avc1,opus",
  "video/mp4;codecs=vp9,opus",
  "video/webm;codecs=vp9,opus",
  "video/webm;codecs=vp8,opus",
  "video/webm",
  "video/mp4",
];
const MAX_BYTES = 1 << 30;
const CHUNK_MS = 1000;
const BITS_PER_PIXEL = 5; // and second: 4.6 Mbit/s for 1280×720
const MIN_BITRATE = 1_500_000;

/**
 * The first file type that this browser can write, MP4 before WebM; null if there is none. Without `sound` the type names no
 * audio codec, because Firefox would wait for sound, and neither write nor stop.
 */
export function chooseType(isTypeSupported: (type: string) => boolean, sound: boolean = true): string | null {
  const types = sound ? TYPES : TYPES.map((type) => type.replace(/,[^,]+$/, ""));
  return types.find((type) => isTypeSupported(type)) ?? null;
}

/** Sound to record; `close` is called when the recording has ended. */
export interface RecordedSound {
  readonly stream: MediaStream;
  close(): void;
}

export interface RecorderListener {
  /** Called once after the end, with the recorded data. */
  done(file: Blob): void;
  /** Called before `done`, if an error ended the recording. */
  failed(message: string): void;
}

/** A canvas's video track, in Firefox its stream. */
interface PictureRequester {
  requestFrame(): void;
}

export class Recorder {
  #recorder: MediaRecorder;
  #requestPicture: () => void;
  #canvas: HTMLCanvasElement;
  #context: CanvasRenderingContext2D;
  #track: MediaStreamTrack & Partial<PictureRequester>;
  #audio: RecordedSound | null;
  #drawRequest: number | null = null;
  #chunks: Blob[] = [];
  #size = 0;
  #listener: RecorderListener;
  readonly source: HTMLCanvasElement;
  readonly size: { readonly width: number; readonly height: number };
  readonly began: number = performance.now();

  /** Begins to record the canvas `source` at once. Throws if this browser cannot record. */
  constructor(source: HTMLCanvasElement, audio: RecordedSound | null, listener: RecorderListener) {
    const type = globalThis.MediaRecorder ? chooseType((candidate) => MediaRecorder.isTypeSupported(candidate), audio !== null) : null;
    if (type === null) throw new Error("this browser cannot record video");
    this.source = source;
    this.#audio = audio;
    this.#listener = listener;
    // Most encoders need even sizes; the picture keeps its size, at the top left.
    const { width, height } = source;
    this.#canvas = Object.assign(document.createElement("canvas"), { width: width + (width % 2), height: height + (height % 2) });
    this.size = { width, height };
    this.#context = this.#canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
    const video: MediaStream & Partial<PictureRequester> = this.#canvas.captureStream(0);
    [this.#track] = video.getVideoTracks();
    const asked = (this.#track.requestFrame ? this.#track : video) as PictureRequester; // Firefox has the method on the stream
    this.#requestPicture = () => asked.requestFrame();
    const tracks = [this.#track, ...(audio?.stream.getAudioTracks() ?? [])];
    const videoBitsPerSecond = Math.max(MIN_BITRATE, BITS_PER_PIXEL * width * height);
    this.#recorder = new MediaRecorder(new MediaStream(tracks), { mimeType: type, videoBitsPerSecond });
    this.#recorder.addEventListener("dataavailable", ({ data }) => this.#addChunk(data));
    this.#recorder.addEventListener("error", ({ error }: ErrorEvent) => listener.failed(error?.message ?? "the browser's recorder failed"));
    this.#recorder.addEventListener("stop", () => this.#finish());
    this.#recorder.start(CHUNK_MS);
    this.#draw();
  }

  /** A picture was shown. Records it in the next animation frame, when the canvas certainly shows it. */
  shown(): void {
    if (document.hidden) this.#draw();
    else this.#drawRequest ??= requestAnimationFrame(() => this.#draw());
  }

  stop(): void {
    if (this.#recorder.state !== "inactive") this.#recorder.stop();
  }

  #draw(): void {
    cancelAnimationFrame(this.#drawRequest ?? 0);
    this.#drawRequest = null;
    if (this.#recorder.state !== "recording") return;
    try {
      this.#context.drawImage(this.source, 0, 0, this.size.width, this.size.height);
      this.#requestPicture();
    } catch (error) {
      this.#listener.failed((error as Error).message);
      this.stop();
    }
  }

  #addChunk(data: Blob): void {
    this.#chunks.push(data);
    this.#size += data.size;
    if (this.#size <= MAX_BYTES || this.#recorder.state === "inactive") return;
    this.#listener.failed("the file has reached 1 GiB; the recording ends and is saved");
    this.stop();
  }

  #finish(): void {
    cancelAnimationFrame(this.#drawRequest ?? 0);
    this.#track.stop();
    this.#audio?.close();
    this.#listener.done(new Blob(this.#chunks, { type: this.#recorder.mimeType }));
    this.#chunks = [];
  }
}

/**
 * Records `canvas` until `stop`, or until `ended` aborts; `recorders` has the recorder meanwhile, which is to be told of each picture.
 * `file` rejects if nothing was recorded. Throws if this browser cannot record.
 */
export function record(
  canvas: HTMLCanvasElement,
  sound: RecordedSound | null,
  recorders: Set<Recorder>,
  ended: AbortSignal,
  onTrouble: (message: string) => void = () => {},
): { file: Promise<Blob>; stop: () => Promise<Blob> } {
  let trouble = "there was nothing to record";
  let settle: (file: Blob) => void = () => {};
  const file = new Promise<Blob>((resolve, reject) => {
    settle = (file) => (file.size > 0 ? resolve(file) : reject(new Error(trouble)));
  });
  file.catch(() => {}); // a caller that ignores it causes no unhandled rejection
  const recorder = new Recorder(canvas, sound, {
    done: (file) => {
      ended.removeEventListener("abort", stop);
      recorders.delete(recorder);
      settle(file);
    },
    failed: (message) => {
      trouble = message;
      onTrouble(message);
    },
  });
  const stop = (): Promise<Blob> => {
    recorder.stop();
    return file;
  };
  recorders.add(recorder);
  ended.addEventListener("abort", stop);
  if (ended.aborted) void stop();
  return { file, stop };
}
