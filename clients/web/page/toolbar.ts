/** The buttons on the picture: screenshot, copy, the last seconds, record, full screen. */
import type { Recording } from "../src/index.ts";
import { ENLARGE, icon, loadStyle } from "./dom.ts";
import { describeTime, extension, fileName } from "./file-names.ts";
import { largeCanvas, type Place } from "./pictures.ts";
import { fillIn, STRINGS } from "./strings.ts";

const REFRESH = 250;
const KEPT_FOR = 60_000; // a download goes on reading the file for a while

export interface ToolbarParts {
  /** Has the class `recording` while a recording runs. */
  readonly stage: HTMLElement;
  /** What becomes full screen: the picture and the panel. */
  readonly screen: HTMLElement;
  readonly snapshot: HTMLButtonElement;
  readonly copy: HTMLButtonElement;
  readonly clip: HTMLButtonElement;
  readonly record: HTMLButtonElement;
  readonly time: HTMLElement;
  readonly fullscreen: HTMLButtonElement;
}

export class Toolbar {
  #parts: ToolbarParts;
  #failed: (message: string) => void;
  #done: (message: string) => void;
  #name = "";
  #pictures: { readonly large: Place | null } = { large: null };
  #recording: Recording | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `failed(message)` reports an error to the user, and `done(message)` a success that is not seen otherwise. */
  constructor(parts: ToolbarParts, failed: (message: string) => void, done: (message: string) => void) {
    this.#parts = parts;
    this.#failed = failed;
    this.#done = done;
    const { snapshot, copy, clip, record, fullscreen } = parts;
    clip.addEventListener("click", () => this.#clip());
    copy.addEventListener("click", () => this.#copy());
    fullscreen.hidden = !document.fullscreenEnabled;
    snapshot.addEventListener("click", () => this.#snapshot());
    record.addEventListener("click", () => (this.#recording ? this.#recording.stop() : this.#record()));
    fullscreen.addEventListener("click", () => this.#fullscreen());
    let enter = "";
    document.addEventListener("fullscreenchange", () => {
      const full = document.fullscreenElement === parts.screen;
      if (full) enter = fullscreen.title;
      fullscreen.title = full ? STRINGS.tools.leave : enter;
      fullscreen.setAttribute("aria-label", fullscreen.title);
      fullscreen.replaceChildren(icon([full ? "M6 2v4H2M14 6h-4V2M10 14v-4h4M2 10h4v4" : ENLARGE]));
    });
  }

  /** Begins a session of the model `name`; `pictures.large` is the large picture, or null. */
  beginSession(name: string, pictures: { readonly large: Place | null }): void {
    this.#name = name;
    this.#pictures = pictures;
    this.#enable(false);
  }

  /** The picture on `canvas` has changed. */
  pictureShown(canvas: HTMLCanvasElement): void {
    if (this.#parts.snapshot.disabled && canvas === largeCanvas()) this.#enable(true);
  }

  /** Ends the recording with the session. The user can still save the last picture. */
  endSession(): void {
    void this.#recording?.stop(); // the code that started the recording saves its file
    this.#parts.record.disabled = true;
  }

  #save(file: Blob, name: string): void {
    save(file, name);
    this.#done(fillIn(STRINGS.saved, { name }));
  }

  #enable(shown: boolean): void {
    const { snapshot, copy, clip, record } = this.#parts;
    snapshot.hidden = record.hidden = this.#pictures.large === null;
    copy.hidden = snapshot.hidden || !canCopy(); // a page of plain http may not
    clip.hidden = snapshot.hidden || !canEncode();
    snapshot.disabled = copy.disabled = clip.disabled = record.disabled = !shown;
  }

  async #copy(): Promise<void> {
    const { large } = this.#pictures;
    if (large === null) return; // the button is hidden
    try {
      // Safari takes the picture only as a promise, because it looks at the click that asked for it.
      await navigator.clipboard.write([new ClipboardItem({ "image/png": large.view.snapshot() })]);
      this.#done(STRINGS.copied);
    } catch (error) {
      this.#failed(`${STRINGS.tools.failed.copy}: ${(error as Error).message}`);
    }
  }

  async #snapshot(): Promise<void> {
    const { large } = this.#pictures;
    if (large === null) return; // the button is hidden
    try {
      this.#save(await large.view.snapshot(), fileName(this.#name, "png"));
    } catch (error) {
      this.#failed(`${STRINGS.tools.failed.snapshot}: ${(error as Error).message}`);
    }
  }

  /** Saves what the large picture showed before the click. */
  async #clip(): Promise<void> {
    const { large } = this.#pictures;
    if (large === null) return; // the button is hidden
    const { clip } = this.#parts;
    const pictures = large.replay.frames();
    clip.disabled = true;
    this.#done(STRINGS.tools.preparing);
    try {
      const { makeClip } = await import("./clip.ts");
      this.#save(await makeClip(pictures), fileName(this.#name, "mp4"));
    } catch (error) {
      this.#failed(`${STRINGS.tools.failed.clip}: ${(error as Error).message}`);
    }
    clip.disabled = false;
  }

  /** Records the large picture until the user or the session ends it, and saves the file. */
  async #record(): Promise<void> {
    const { large } = this.#pictures;
    if (large === null) return; // the button is hidden
    const troubles: string[] = [];
    const name = this.#name;
    try {
      const recording = large.view.record({ onTrouble: (message) => troubles.push(message) });
      this.#recording = recording;
      this.#timer = setInterval(() => this.#showRecording(), REFRESH);
      this.#showRecording();
      const file = await recording.file;
      this.#save(file, fileName(name, extension(file.type)));
    } catch (error) {
      troubles.push((error as Error).message);
    }
    this.#recording = null;
    clearInterval(this.#timer);
    this.#showRecording();
    for (const trouble of new Set(troubles)) this.#failed(`${STRINGS.tools.failed.recording}: ${trouble}`);
  }

  #showRecording(): void {
    const { stage, record, time } = this.#parts;
    const recording = this.#recording;
    stage.classList.toggle("recording", recording !== null);
    record.setAttribute("aria-pressed", String(recording !== null));
    record.title = recording ? STRINGS.tools.stopRecording : STRINGS.tools.record;
    record.setAttribute("aria-label", record.title);
    time.textContent = recording ? describeTime(performance.now() - recording.began) : "";
  }

  async #fullscreen(): Promise<void> {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else {
        await loadStyle("fullscreen.css");
        await this.#parts.screen.requestFullscreen();
      }
    } catch (error) {
      this.#failed(`${STRINGS.tools.failed.fullscreen}: ${(error as Error).message}`);
    }
  }
}

const canEncode = (): boolean => typeof VideoEncoder === "function" && typeof OffscreenCanvas === "function";

const canCopy = (): boolean => typeof ClipboardItem === "function" && Boolean(navigator.clipboard);

/** Makes the browser save the file. */
function save(file: Blob, name: string): void {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_FOR);
}
