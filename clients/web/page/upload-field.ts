/** What a field for files shows, and how it takes one: a button, a drop zone, and a progress bar. Loaded with the first such field. */
import type { UploadRef } from "../src/index.ts";
import { element, type RefusalLine } from "./dom.ts";
import { fillIn, number, UPLOADS } from "./strings.ts";
import type { Take, Uploads } from "./uploads.ts";

export { UPLOADS };

export interface UploadFieldOptions {
  /** What the file is for; "" for a file outside commands. */
  readonly title: string;
  readonly id: string;
  /** The accepted types, with commas between them; all without it. */
  readonly accept?: string | undefined;
  readonly refused: RefusalLine;
  readonly uploads: Uploads;
  /** Takes a dropped file, unless the control is disabled. */
  readonly take: Take;
  /** Called when the server has a file. */
  readonly given: () => void;
}

/** The parts behind the control of a field for files. */
export interface UploadField {
  readonly parts: readonly HTMLElement[];
  busy(): boolean;
  read(): unknown;
  show(value: unknown): void;
  take(file: File): Promise<void>;
}

/** "1.2 MB" */
export function describeSize(bytes: number): string {
  const { size, units } = UPLOADS;
  for (const [unit, each] of [
    [units.GB, 1e9],
    [units.MB, 1e6],
    [units.kB, 1e3],
  ] as const)
    if (bytes >= each) return fillIn(size, { n: number(bytes / each, 1), unit });
  return fillIn(size, { n: bytes, unit: units.bytes });
}

/** Whether a file of this type is one of those that `accept` lists: of a type, or of all whose name is a star. */
const fits = (type: string, accept: readonly string[]): boolean =>
  accept.some((each) => {
    const [family = "", name] = each.split("/");
    return each === type || (name === "*" && (family === "*" || type.split("/")[0] === family));
  });

/** Why a file is not taken, from what is: null for one that fits. */
export function misfit(type: string, accept: readonly string[]): string | null {
  if (accept.length === 0 || fits(type, accept)) return null;
  const { unfit, kinds } = UPLOADS;
  const [family, all] = accept.length === 1 ? (accept[0] ?? "").split("/") : [];
  if (all === "*" && (family === "image" || family === "video" || family === "audio")) return unfit[family];
  const names = accept.map((each) => {
    const [kind = "", name = ""] = each.split("/");
    return name === "*" ? (kinds[kind as keyof typeof kinds] ?? kind) : name.replace(/^x-|\+.*$/g, "").toUpperCase();
  });
  return fillIn(unfit.other, { kinds: [...new Set(names)].join(", ") });
}

export function uploadField({ title, id, accept, refused, uploads, take, given }: UploadFieldOptions): UploadField {
  const words = element("span", { class: "file-words" }, UPLOADS.choose);
  const zone = element("label", { class: "drop", for: id }, words);
  const bar = element("progress", { max: 1, value: 0, "aria-label": fillIn(UPLOADS.sent, { title: title || UPLOADS.file }) });
  const cancel = element("button", { type: "button", class: "cancel" }, UPLOADS.cancel);
  const going = element("div", { class: "row going", hidden: true }, bar, cancel);
  const known = new Map<unknown, string>();
  let value: unknown;
  let run: AbortController | null = null;

  function show(now: unknown): void {
    value = now;
    words.textContent = known.get((now as Partial<UploadRef> | null | undefined)?.upload_id) ?? UPLOADS.choose;
    zone.classList.toggle("filled", Boolean(now));
  }

  async function send(file: File): Promise<void> {
    const why = misfit(file.type, accept ? accept.split(",") : []);
    if (why !== null) {
      refused.show(new Error(why));
      return;
    }
    run?.abort();
    const mine = (run = new AbortController());
    refused.hide();
    bar.value = 0;
    going.hidden = false;
    words.textContent = fillIn(UPLOADS.sending, { name: file.name });
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
      given();
    } catch (error) {
      if (run !== mine) return; // another file has replaced it
      show(value);
      if ((error as Error).name !== "AbortError") refused.show(error);
      run = null;
    } finally {
      if (run === null) going.hidden = true;
    }
  }

  cancel.addEventListener("click", () => run?.abort());
  dropOn(zone, take);
  if (uploads.onlyDropTarget === take) dropOn(window, take, { signal: uploads.signal });
  return {
    parts: [zone, going],
    busy: () => run !== null,
    read() {
      if (run) throw new Error(UPLOADS.busy);
      if (!value) throw new Error(UPLOADS.needed);
      return value;
    },
    show,
    take: send,
  };
}

/** Takes a file dropped on `target`, and marks `target` while a file is held over it. Takes the first of several files. */
function dropOn(target: GlobalEventHandlers, take: Take, until: { readonly signal?: AbortSignal } = {}): void {
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
