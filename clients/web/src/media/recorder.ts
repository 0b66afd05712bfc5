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

/** What a canvas shows: also in a hidden page, where a browser may leave the canvas as it was. */
export interface ShownPicture {
  grab(): Promise<ImageBitmap>;
}

/** A canvas's video track, in Firefox its stream. */
interface PictureRequester {
  requestFrame(): void;
}

/**
 * Records the canvas `source` from now on, until `stop`, a fault, or the abort of `ended`. `recorders` has meanwhile what is to be called for
 * each picture that was shown. `file` rejects if nothing was recorded. Throws if this browser cannot record.
 */
export function record(
  source: HTMLCanvasElement,
  sound: RecordedSound | null,
  recorders: Set<(shown: ShownPicture) => void>,
  ended: AbortSignal,
  onTrouble: (message: string) => void = () => {},
): { file: Promise<Blob>; stop: () => Promise<Blob> } {
  const mimeType = globalThis.MediaRecorder ? chooseType((candidate) => MediaRecorder.isTypeSupported(candidate), sound !== null) : null;
  if (mimeType === null) throw new Error("this browser cannot record video");
  // Most encoders need even sizes; the picture keeps its size, at the top left.
  const { width, height } = source;
  const canvas = Object.assign(document.createElement("canvas"), { width: width + (width % 2), height: height + (height % 2) });
  const context = canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
  const video: MediaStream & Partial<PictureRequester> = canvas.captureStream(0);
  const [track] = video.getVideoTracks() as [MediaStreamTrack & Partial<PictureRequester>];
  const asked = (track.requestFrame ? track : video) as PictureRequester; // Firefox has the method on the stream
  const recorder = new MediaRecorder(new MediaStream([track, ...(sound?.stream.getAudioTracks() ?? [])]), {
    mimeType,
    videoBitsPerSecond: Math.max(MIN_BITRATE, BITS_PER_PIXEL * width * height),
  });
  const chunks: Blob[] = [];
  let size = 0;
  let request = 0;
  let trouble = "there was nothing to record";

  const stop = (): Promise<Blob> => {
    if (recorder.state !== "inactive") recorder.stop();
    return file;
  };
  const fail = (message: string): void => {
    trouble = message;
    onTrouble(message);
    void stop();
  };
  const draw = async (picture: CanvasImageSource | Promise<ImageBitmap>): Promise<void> => {
    cancelAnimationFrame(request);
    request = 0;
    try {
      const image: CanvasImageSource & { close?(): void } = await picture;
      if (recorder.state === "recording") context.drawImage(image, 0, 0, width, height);
      asked.requestFrame();
      image.close?.();
    } catch (error) {
      if (recorder.state === "recording") fail((error as Error).message);
    }
  };
  /** Records a picture in the next animation frame, when the canvas certainly shows it. A hidden page has none. */
  const shown = (picture: ShownPicture): void => {
    if (document.hidden) void draw(picture.grab());
    else request ||= requestAnimationFrame(() => draw(source));
  };
  const file = new Promise<Blob>((resolve, reject) => {
    recorder.addEventListener("stop", () => {
      cancelAnimationFrame(request);
      track.stop();
      sound?.close();
      ended.removeEventListener("abort", stop);
      recorders.delete(shown);
      if (size > 0) resolve(new Blob(chunks, { type: recorder.mimeType }));
      else reject(new Error(trouble));
    });
  });
  file.catch(() => {}); // a caller that ignores it causes no unhandled rejection

  recorder.addEventListener("dataavailable", ({ data }) => {
    chunks.push(data);
    size += data.size;
    if (size > MAX_BYTES && recorder.state !== "inactive") fail("the file has reached 1 GiB; the recording ends and is saved");
  });
  recorder.addEventListener("error", ({ error }: ErrorEvent) => fail(error?.message ?? "the browser's recorder failed"));
  recorder.start(CHUNK_MS);
  void draw(source);
  recorders.add(shown);
  ended.addEventListener("abort", stop);
  if (ended.aborted) void stop();
  return { file, stop };
}
