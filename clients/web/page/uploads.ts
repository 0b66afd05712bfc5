/**
 * Files for the model. The page sends a file first, then names it in a command by its `upload_id`. What a field for files shows, and how it
 * takes a file, is loaded with the first such field: upload-field.ts.
 */
import type { UploadOptions, UploadRef } from "../src/index.ts";
import { element, loadStyle, refusalLine } from "./dom.ts";
import type { FieldInput } from "./fields.ts";
import { STRINGS } from "./strings.ts";
import type { UploadField } from "./upload-field.ts";

/** Sends a file of the user: the client's `upload`. */
export type SendFile = (file: File, options: UploadOptions) => Promise<UploadRef>;

/** Takes a file. */
export type Take = (file: File) => unknown;

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
    if (this.#send === null) throw new Error((await import("./upload-field.ts")).UPLOADS.refused);
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

/** A form field (see fields.ts) for a file. The value is {upload_id}; the field commits it when the server has the file. */
export function uploadInput(
  declared: { readonly title: string; readonly accept?: string | undefined },
  id: string,
  uploads: Uploads,
): FieldInput {
  void loadStyle("inputs.css");
  const control = element("input", { type: "file", id, class: "file", accept: declared.accept });
  const refused = refusalLine();
  const box = element("div", { class: "upload" }, control, refused.element);
  let view: UploadField | undefined;
  let value: unknown;
  let changed: (given: boolean) => void = () => {};
  const take = (file: File): unknown => !control.matches(":disabled") && loaded.then(() => view?.take(file));
  const show = (now: unknown): void => {
    value = now;
    view?.show(now);
  };
  uploads.addDropTarget(take);
  const loaded = import("./upload-field.ts")
    .then(({ uploadField }) => {
      view = uploadField({ ...declared, id, refused, uploads, take, given: () => changed(true) });
      control.after(...view.parts);
      view.show(value);
    })
    .catch(refused.show);
  control.addEventListener("change", () => {
    const file = control.files?.[0];
    if (file) take(file);
    control.value = ""; // so that the user can choose the same file again
  });
  return {
    control,
    element: box,
    busy: () => Boolean(view?.busy()),
    read() {
      if (!view) throw new Error(STRINGS.fields.file); // what sends it still loads
      return view.read();
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
  const { element: body } = uploadInput({ title: "" }, "file-for-model", uploads);
  return element("div", { class: "control card", "data-upload": true }, body ?? null);
}
