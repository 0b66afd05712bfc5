/** The buttons on the picture: screenshot, record, full screen. */
import { Recorder, describeTime, extension, fileName } from "./recorder.js";

const REFRESH = 250;
const KEPT_FOR = 60_000; // a download goes on reading the file for a while

export class Toolbar {
  #parts;
  #audio;
  #failed;
  #session = null;
  #recorder = null;
  #timer = null;

  /** `parts` are the elements {hero, snapshot, record, time, fullscreen}; `failed(message)` reports an error to the user. */
  constructor(parts, audio, failed) {
    this.#parts = parts;
    this.#audio = audio;
    this.#failed = failed;
    const { snapshot, record, fullscreen } = parts;
    fullscreen.hidden = !document.fullscreenEnabled;
    snapshot.addEventListener("click", () => this.#snapshot());
    record.addEventListener("click", () => (this.#recorder ? this.#recorder.stop() : this.#record()));
    fullscreen.addEventListener("click", () => this.#fullscreen());
    document.addEventListener("fullscreenchange", () => {
      fullscreen.setAttribute("aria-pressed", String(document.fullscreenElement === parts.hero));
    });
  }

  /** Begins a session of the model `name`; `picture()` returns the large `Picture`, or null. */
  beginSession(name, picture) {
    this.#session = { name, picture };
    this.#enable(false);
  }

  /** The picture on `canvas` has changed. */
  pictureShown(canvas) {
    if (this.#parts.snapshot.disabled && canvas === this.#session.picture().canvas) this.#enable(true);
    if (canvas === this.#recorder?.source) this.#recorder.shown();
  }

  /** Ends the recording with the session. The user can still save the last picture. */
  endSession() {
    this.#recorder?.stop();
    this.#parts.record.disabled = true;
  }

  #enable(shown) {
    const { snapshot, record } = this.#parts;
    snapshot.hidden = record.hidden = this.#session.picture() === null;
    snapshot.disabled = record.disabled = !shown;
  }

  async #snapshot() {
    const { name, picture } = this.#session;
    try {
      save(await picture().snapshot(), fileName(name, "png"));
    } catch (error) {
      this.#failed(`screenshot: ${error.message}`);
    }
  }

  #record() {
    const { name, picture } = this.#session;
    const audio = this.#audio.captureStream();
    try {
      this.#recorder = new Recorder(picture().canvas, audio, {
        done: (file) => {
          this.#recorder = null;
          clearInterval(this.#timer);
          this.#showRecording();
          if (file.size > 0) save(file, fileName(name, extension(file.type)));
          else this.#failed("recording: there was nothing to record");
        },
        failed: (message) => this.#failed(`recording: ${message}`),
      });
      this.#timer = setInterval(() => this.#showRecording(), REFRESH);
    } catch (error) {
      audio?.close();
      this.#failed(`recording: ${error.message}`);
    }
    this.#showRecording();
  }

  #showRecording() {
    const { hero, record, time } = this.#parts;
    const recorder = this.#recorder;
    hero.classList.toggle("recording", recorder !== null);
    record.setAttribute("aria-pressed", String(recorder !== null));
    record.title = recorder ? "Stop recording and save" : "Record to a file";
    record.setAttribute("aria-label", record.title);
    time.textContent = recorder ? describeTime(performance.now() - recorder.began) : "";
  }

  async #fullscreen() {
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else await this.#parts.hero.requestFullscreen();
    } catch (error) {
      this.#failed(`full screen: ${error.message}`);
    }
  }
}

/** Makes the browser save the file. */
function save(file, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_FOR);
}
