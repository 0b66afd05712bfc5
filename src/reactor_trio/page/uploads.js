/**
 * Files for the model. The page sends a file to `POST uploads` with the session's upload token, then names it in a command by its
 * `upload_id`.
 */
import { element, refusalLine } from "./dom.js";

const LONGEST_REASON = 300;

/** The uploads of one session. `close` aborts all of them. */
export class Uploads {
  #url;
  #token;
  #stop = new AbortController();
  #dropTargets = [];

  /** `url` is that of the server's `uploads`; `token` the session's upload token, or null if the model accepts no files. */
  constructor(url, token) {
    this.#url = url;
    this.#token = token;
  }

  /** Adds a part of the page that accepts a file: `take(file)`. */
  addDropTarget(take) {
    this.#dropTargets.push(take);
  }

  /** Aborts with the session. */
  get signal() {
    return this.#stop.signal;
  }

  /** Whether the model accepts files outside commands: the session has an upload token, but no command has a file argument. */
  get needsOwnCard() {
    return this.#token !== null && this.#dropTargets.length === 0;
  }

  /** The only drop target, for a file dropped anywhere on the page; null if there is not exactly one. */
  get onlyDropTarget() {
    return this.#token !== null && this.#dropTargets.length === 1 ? this.#dropTargets[0] : null;
  }

  /**
   * Sends a file. Resolves with the server's answer ({upload_id, name, mime_type, size}). Rejects with the server's
   * reason, or with an AbortError if `signal` aborts or the session ends. `progress` gets the sent fraction, from 0 to 1.
   */
  send(file, progress, signal) {
    if (this.#token === null) return Promise.reject(new Error("This server takes no uploads."));
    const query = new URLSearchParams({ name: file.name, mime_type: file.type || "application/octet-stream" });
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      const abort = () => {
        request.abort();
        reject(new DOMException("cancelled", "AbortError"));
      };
      request.open("POST", `${this.#url}?${query}`);
      request.setRequestHeader("Authorization", `Bearer ${this.#token}`);
      request.upload.addEventListener("progress", ({ loaded, total }) => progress(total > 0 ? loaded / total : 1));
      request.addEventListener("load", () => {
        const answer = parse(request.responseText);
        if (request.status === 201 && typeof answer?.upload_id === "string") resolve(answer);
        else reject(new Error(refusal(request)));
      });
      // A server that refuses a file answers and closes at once; the browser cannot always read the answer.
      request.addEventListener("error", () => reject(new Error("The server broke off the upload. The file may be too large.")));
      if (this.#stop.signal.aborted) {
        abort();
        return;
      }
      for (const stop of [signal, this.#stop.signal]) stop.addEventListener("abort", abort, { once: true });
      request.send(file);
    });
  }

  close() {
    this.#stop.abort();
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The server's reason for a refusal. */
function refusal({ status, statusText, responseText }) {
  const answer = parse(responseText);
  const reason = answer?.message ?? answer?.error ?? (answer === null ? responseText.trim() : "");
  return `Refused: ${String(reason || statusText || "no reason given").slice(0, LONGEST_REASON)} (${status})`;
}

/** "1.2 MB" */
export function describeSize(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  return `${bytes} bytes`;
}

/**
 * A form field (see fields.js) for a file: a button, a drop zone, and a progress bar. The value is {upload_id}; the field
 * commits it when the server has the file.
 */
export function uploadInput({ title, accept }, id, uploads) {
  const control = element("input", { type: "file", id, class: "file", accept });
  const words = element("span", { class: "file-words" }, "Choose a file or drop it here");
  const zone = element("label", { class: "drop", for: id }, words);
  const bar = element("progress", { max: 1, value: 0, "aria-label": `${title}: sent` });
  const cancel = element("button", { type: "button", class: "cancel" }, "Cancel");
  const going = element("div", { class: "row going", hidden: true }, bar, cancel);
  const refused = refusalLine();
  const box = element("div", { class: "upload" }, control, zone, going, refused.element);
  const known = new Map();
  let value;
  let run = null;
  let changed = () => {};

  function show(now) {
    value = now;
    words.textContent = known.get(now?.upload_id) ?? "Choose a file or drop it here";
    zone.classList.toggle("filled", Boolean(now));
  }

  async function take(file) {
    run?.abort();
    const mine = (run = new AbortController());
    refused.hide();
    bar.value = 0;
    going.hidden = false;
    words.textContent = `Sending ${file.name}`;
    try {
      const answer = await uploads.send(file, (part) => { bar.value = part; }, mine.signal);
      known.set(answer.upload_id, `${answer.name ?? file.name}, ${describeSize(answer.size ?? file.size)}`);
      show({ upload_id: answer.upload_id });
      run = null;
      changed(true);
    } catch (error) {
      if (run !== mine) return; // another file has replaced it
      show(value);
      if (error.name !== "AbortError") refused.show(error);
      run = null;
    } finally {
      if (run === null) going.hidden = true;
    }
  }

  control.addEventListener("change", () => {
    const [file] = control.files;
    if (file) take(file);
    control.value = ""; // so that the user can choose the same file again
  });
  cancel.addEventListener("click", () => run?.abort());
  dropOn(zone, (file) => !control.matches(":disabled") && take(file));
  uploads.addDropTarget((file) => !control.matches(":disabled") && take(file));
  return {
    control,
    element: box,
    busy: () => run !== null,
    read() {
      if (run) throw new Error("the file is still being sent");
      if (!value) throw new Error("a file is needed");
      return value;
    },
    write: show,
    showNull(yes) {
      if (yes) show(null);
    },
    listen: (call) => { changed = call; },
  };
}

/** A card for files of a model that accepts files outside commands. */
export function uploadCard(uploads) {
  const { element: body } = uploadInput({ title: "File" }, "file-for-model", uploads);
  return element("div", { class: "control card", "data-upload": true }, body);
}

/** Takes a file dropped on `target`, and marks `target` while a file is held over it. Takes the first of several files. */
export function dropOn(target, take, { signal } = {}) {
  const mark = (yes) => (target === window ? document.body : target).classList.toggle("dropping", yes);
  const holdsFile = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  target.addEventListener("dragover", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    mark(true);
  }, { signal });
  target.addEventListener("dragleave", (event) => {
    if (target !== window || event.relatedTarget === null) mark(false);
  }, { signal });
  target.addEventListener("drop", (event) => {
    mark(false);
    const file = event.dataTransfer?.files[0];
    if (!file || event.defaultPrevented) return;
    event.preventDefault();
    take(file);
  }, { signal });
}
