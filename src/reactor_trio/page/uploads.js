/**
 * Files for the model: sent to `POST uploads` with the session's token, then named in a command by their `upload_id`.
 */
import { element, refusalLine } from "./dom.js";

const LONGEST_REASON = 300;

/** What a session may upload. Every upload ends with `close`. */
export class Uploads {
  #url;
  #token;
  #stop = new AbortController();
  #dropTargets = [];

  /** `url` is that of the server's `uploads`; `token` the session's upload token, or null if it takes none. */
  constructor(url, token) {
    this.#url = url;
    this.#token = token;
  }

  /** A place of the page that takes a file: `take(file)`. */
  addDropTarget(take) {
    this.#dropTargets.push(take);
  }

  /** Aborts with the session. */
  get signal() {
    return this.#stop.signal;
  }

  /** Whether the model takes files by themselves: it has an upload token, but no command with a place for a file. */
  get needsOwnCard() {
    return this.#token !== null && this.#dropTargets.length === 0;
  }

  /** What takes a file that is dropped anywhere on the page: the one place that there is, or null. */
  get onlyDropTarget() {
    return this.#token !== null && this.#dropTargets.length === 1 ? this.#dropTargets[0] : null;
  }

  /**
   * Send a file. Resolves with what the server says of it ({upload_id, name, mime_type, size}); rejects with the server's
   * reason, or with an AbortError if `signal` aborts or the session ends. `progress` is told the part sent, from 0 to 1.
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
      // A server that has seen enough answers and closes; the browser does not always get to read why.
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

/** The server's own words for its refusal. */
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
 * A form field (see fields.js) for a file: a button, a drop zone, and how far it is. The value is {upload_id}; it is
 * given once the server has the file.
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
      if (run !== mine) return; // another file took its place
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
    control.value = ""; // the same file can be chosen again
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

/** A card that sends files to a model that takes them without a command. */
export function uploadCard(uploads) {
  const { element: body } = uploadInput({ title: "File" }, "file-for-model", uploads);
  return element("div", { class: "control card", "data-upload": true }, body);
}

/** Takes files dropped on `target`, which is marked while one is held above it. Not more than one at a time. */
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
