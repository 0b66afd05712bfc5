/** Files for the model: `POST uploads` with the session's upload token (docs/reference/protocol.md). */
import type { UploadRefused } from "../wire/errors.ts";
import { MOST_BYTES, textOf } from "./answer-text.ts";
import type { UploadOptions, UploadRef } from "./types.ts";

const LONGEST_REASON = 300;

/** Makes the error of this package; handed in, so that this module stands alone and can be loaded when the first file is sent. */
type Refuse = (message: string, status: number, refusal?: string | null) => UploadRefused;

/**
 * Sends a file. Rejects with UploadRefused, or with the reason of the signal. `onProgress` needs a browser; elsewhere, and with a `fetch` of the
 * application, it hears the end alone.
 */
export async function upload(
  url: URL,
  token: string | null,
  source: Blob | Uint8Array<ArrayBuffer>,
  { name, type, signal, onProgress }: UploadOptions,
  fetch: typeof globalThis.fetch | undefined,
  refuse: Refuse,
): Promise<UploadRef> {
  signal?.throwIfAborted();
  if (token === null) throw refuse("This model takes no files, or this client may only watch.", 0);
  const file = source instanceof Blob ? source : new Blob([source]);
  const address = new URL(url);
  address.searchParams.set("name", name ?? ("name" in file && typeof file.name === "string" ? file.name : "file"));
  address.searchParams.set("mime_type", type || file.type || "application/octet-stream");
  address.searchParams.set("token", token); // not in a header, which a proxy may set for itself
  const answer =
    onProgress && fetch === undefined && globalThis.XMLHttpRequest
      ? await request(address, file, onProgress, signal, refuse)
      : await post(fetch ?? globalThis.fetch, address, file, signal, refuse);
  const taken = answer.status === 201 ? parsed(answer.text) : null;
  if (typeof taken?.upload_id !== "string") throw refuse(reasonOf(answer), answer.status, answer.refusal);
  onProgress?.(1);
  return taken as unknown as UploadRef;
}

interface Answer {
  readonly status: number;
  readonly statusText: string;
  readonly text: string;
  /** The code of the refusal; null: the answer is a proxy's, or no refusal. */
  readonly refusal: string | null;
}

const REFUSAL_HEADER = "reactor-refusal";

// A server that refuses a file answers and closes at once; the answer cannot always be read.
const BROKEN = "The server broke off the upload. The file may be too large.";
const TOO_MUCH = "The answer to the upload says more than a server of this project does.";

async function post(
  fetch: typeof globalThis.fetch,
  url: URL,
  body: Blob,
  signal: AbortSignal | undefined,
  refuse: Refuse,
): Promise<Answer> {
  try {
    const answer = await fetch(url, { method: "POST", body, signal: signal ?? null });
    const { status, statusText, headers } = answer;
    return { status, statusText, text: await textOf(answer), refusal: headers.get(REFUSAL_HEADER) };
  } catch (error) {
    signal?.throwIfAborted();
    throw Object.assign(refuse(BROKEN, 0), { cause: error });
  }
}

/** `fetch` tells no progress, so a page that wants it gets an XMLHttpRequest. */
function request(
  url: URL,
  body: Blob,
  onProgress: (part: number) => void,
  signal: AbortSignal | undefined,
  refuse: Refuse,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest();
    asked.open("POST", url.href);
    asked.upload.addEventListener("progress", ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 1));
    asked.addEventListener("load", () => {
      const { status, statusText, responseText: text } = asked;
      // not getResponseHeader: of a header that the page may not read a browser writes an error on the console
      resolve({ status, statusText, text, refusal: /^reactor-refusal: *(.*)$/m.exec(asked.getAllResponseHeaders())?.[1] ?? null });
    });
    asked.addEventListener("error", () => reject(refuse(BROKEN, 0)));
    asked.addEventListener("progress", ({ loaded }) => {
      if (loaded <= MOST_BYTES) return;
      asked.abort();
      reject(refuse(TOO_MUCH, 0));
    });
    const abort = (): void => {
      asked.abort();
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", abort);
    asked.addEventListener("loadend", () => signal?.removeEventListener("abort", abort));
    asked.send(body);
  });
}

/** The object that a server may have answered, or null. */
function parsed(text: string): { readonly [name: string]: unknown } | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What a page of HTML, or nothing, means: a server of this project answers with a line of text. */
const PROXY: { readonly [status: number]: string } = {
  403: "forbids this",
  411: "wants a size",
  413: "refuses files of this size",
  502: "cannot reach it",
  503: "cannot reach it",
  504: "got no answer in time",
};

function reasonOf({ status, statusText, text }: Answer): string {
  const answer = parsed(text);
  let reason: unknown = answer?.message ?? answer?.error ?? (answer === null ? text.trim() : "");
  if (!reason || text.trim()[0] === "<") reason = PROXY[status] && `a proxy in front of the server ${PROXY[status]}`;
  return `Refused: ${String(reason || statusText || "no reason given").slice(0, LONGEST_REASON)} (${status})`;
}
