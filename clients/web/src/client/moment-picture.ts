/** The picture of a moment: `GET moments/STEP.jpg` with the session's token for its worlds (docs/reference/protocol.md). */
import type { CommandError } from "../wire/errors.ts";
import { textOf } from "./answer-text.ts";
import type { Worlds } from "./types.ts";

/** Gets it. `refuse` makes the error of this package; handed in, so that this module can be loaded when the first picture is wanted. */
export async function momentPicture(
  url: URL | null,
  token: string | undefined,
  { width = 160, signal }: NonNullable<Parameters<Worlds["picture"]>[1]>,
  fetch: typeof globalThis.fetch,
  refuse: (code: string, message: string) => CommandError,
): Promise<Blob> {
  signal?.throwIfAborted();
  if (url === null || !token) throw refuse("not_allowed", "There are pictures for who controls a session, if its model saves worlds.");
  const address = new URL(url);
  address.searchParams.set("w", String(width));
  address.searchParams.set("token", token); // not in a header, which a proxy may set for itself
  const answer = await fetch(address, { signal: signal ?? null });
  if (answer.ok) return answer.blob();
  const refusal = answer.headers.get("reactor-refusal");
  throw refuse(refusal === "not_found" ? "no_moment" : (refusal ?? "refused"), (await textOf(answer)).trim());
}
