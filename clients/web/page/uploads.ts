/** Files for the model. The page sends a file first, then names it in a command by its `upload_id`. */
import type { UploadOptions, UploadRef } from "../src/index.ts";
import { element, loadStyle, refusalLine } from "./dom.ts";
import type { FieldInput } from "./fields.ts";
import { fillIn, number, STRINGS } from "./strings.ts";

/** Sends a file of the user: the client's `upload`. */
export type SendFile = (file: File, options: UploadOptions) => Promise<UploadRef>;

/** Takes a file. */
type Take = (file: File) => unknown;

/** The uploads of one session. `close` aborts all of them. */
export class Uploads {
  #send: SendFile | null;
  #stop = new AbortController();
  #dropTargets: Take[] = [];

  /** `send` is null if the model accepts no files. */
  constructor(send: SendFile | null) {
    this.#send = send;
  }

  /** Adds a part of the page that accepts a file: `take(file)`. */
  addDropTarget(take: Take): void {
    this.#dropTargets.push(take);
  }

  /** Aborts with the session. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Whether the model accepts files outside commands: the session has an upload token, but no command has a file argument. */
  get needsOwnCard(): boolean {
    return this.#send !== null && this.#dropTargets.length === 0;
  }

  /** The only drop target, for a file dropped anywhere on the page; null if there is not exactly one. */
  get onlyDropTarget(): Take | null {
    const [only = null, ...others] = this.#dropTargets;
    return this.#send !== null && others.length === 0 ? only : null;
  }

  /**
   * Sends a file. Resolves with the server's answer. Rejects with the server's reason, or with an AbortError if `signal` aborts or
   * the session ends. `progress` gets the sent fraction, from 0 to 1.
   */
  async send(file: File, progress: (part: number) => void, signal: AbortSignal): Promise<UploadRef> {
    if (this.#send === null) throw new Error(STRINGS.uploads.refused);
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    const both = [signal, this.#stop.signal];
    if (both.some(({ aborted }) => aborted)) abort();
    for (const either of both) either.addEventListener("abort", abort, { signal: stop.signal });
    try {
      return await this.#send(file, { onProgress: progress, signal: stop.signal });
    } finally {
      for (const either of both) either.removeEventListener("abort", abort);
    }
  }

  close(): void {
    this.#stop.abort();
  }
}

/** "1.2 MB" */
export function describeSize(bytes: number): string {
  const { size, units } = STRINGS.uploads;
  for (const [unit, each] of [
    [units.GB, 1e9],
    [units.MB, 1e6],
    [units.kB, 1e3],
  ] as const)
    if (bytes >= each) return fillIn(size, { n: number(bytes / each, 1), unit });
  return fillIn(size, { n: bytes, unit: units.bytes });
}

/**
 * A form field (see fields.ts) for a file: a button, a drop zone, and a progress bar. The value is {upload_id}; the field
 * commits it when the server has the file.
 */
export function uploadInput(
  { title, accept }: { readonly title: string; readonly accept?: string | undefined },
  id: string,
  uploads: Uploads,
): FieldInput {
  void loadStyle("inputs.css");
  const control = element("input", { type: "file", id, class: "file", accept });
  const words = element("span", { class: "file-words" }, STRINGS.uploads.choose);
  const zone = element("label", { class: "drop", for: id }, words);
  const bar = element("progress", { max: 1, value: 0, "aria-label": fillIn(STRINGS.uploads.sent, { title }) });
  const cancel = element("button", { type: "button", class: "cancel" }, STRINGS.uploads.cancel);
  const going = element("div", { class: "row going", hidden: true }, bar, cancel);
  const refused = refusalLine();
  const box = element("div", { class: "upload" }, control, zone, going, refused.element);
  const known = new Map<unknown, string>();
  let value: unknown;
  let run: AbortController | null = null;
  let changed: (given: boolean) => void = () => {};

  function show(now: unknown): void {
    value = now;
    words.textContent = known.get((now as Partial<UploadRef> | null | undefined)?.upload_id) ?? STRINGS.uploads.choose;
    zone.classList.toggle("filled", Boolean(now));
  }

  async function take(file: File): Promise<void> {
    run?.abort();
    const mine = (run = new AbortController());
    refused.hide();
    bar.value = 0;
    going.hidden = false;
    words.textContent = fillIn(STRINGS.uploads.sending, { name: file.name });
    try {
      const answer = await uploads.send(
        file,
        (part) => {
          bar.value = part;
        },
        mine.signal,
      );
      known.set(answer.upload_id, `${answer.name ?? file.name}, ${describeSize(answer.size ?? file.size)}`);
      show({ upload_id: answer.upload_id });
      run = null;
      changed(true);
    } catch (error) {
      if (run !== mine) return; // another file has replaced it
      show(value);
      if ((error as Error).name !== "AbortError") refused.show(error);
      run = null;
    } finally {
      if (run === null) going.hidden = true;
    }
  }

  control.addEventListener("change", () => {
    const file = control.files?.[0];
    if (file) void take(file);
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
      if (run) throw new Error(STRINGS.uploads.busy);
      if (!value) throw new Error(STRINGS.uploads.needed);
      return value;
    },
    write: show,
    showNull(yes) {
      if (yes) show(null);
    },
    listen: (call) => {
      changed = call;
    },
  };
}

/** A card for files of a model that accepts files outside commands. */
export function uploadCard(uploads: Uploads): HTMLElement {
  const { element: body } = uploadInput({ title: STRINGS.uploads.file }, "file-for-model", uploads);
  return element("div", { class: "control card", "data-upload": true }, body ?? null);
}

/** Takes a file dropped on `target`, and marks `target` while a file is held over it. Takes the first of several files. */
export function dropOn(target: GlobalEventHandlers, take: Take, until: { readonly signal?: AbortSignal } = {}): void {
  const mark = (yes: boolean): boolean => (target instanceof HTMLElement ? target : document.body).classList.toggle("dropping", yes);
  const holdsFile = ({ dataTransfer }: DragEvent): boolean | undefined => dataTransfer?.types.includes("Files");
  target.addEventListener(
    "dragover",
    (event) => {
      if (!holdsFile(event)) return;
      event.preventDefault();
      mark(true);
    },
    until,
  );
  target.addEventListener(
    "dragleave",
    (event) => {
      if (target !== window || event.relatedTarget === null) mark(false);
    },
    until,
  );
  target.addEventListener(
    "drop",
    (event) => {
      mark(false);
      const file = event.dataTransfer?.files[0];
      if (!file || event.defaultPrevented) return;
      event.preventDefault();
      take(file);
    },
    until,
  );
}
