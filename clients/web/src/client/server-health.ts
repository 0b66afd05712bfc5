/** What a server says by HTTP while it gives no session: whether it listens at all, and how far it is with its model. */
import { ConnectionRefused } from "../wire/errors.ts";
import { pageOf } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { textOf } from "./answer-text.ts";
import type { ClientState, LoadProgress } from "./types.ts";

/** Milliseconds before a server that loads its model again is asked for the first time; later it says when, but not above the last one. */
const FIRST_WAIT = 250;
const WAIT = 1000;
const LONGEST_WAIT = 10_000;

export type Restarting = Extract<ClientState, { status: "restarting" }>;

/** The server that is asked, and how. */
interface Server {
  /** The WebSocket address, without a query. */
  readonly url: string;
  readonly fetch: typeof fetch;
}

/** Why no connection was ever open. `foreign`: whether the server may take no WebSocket from pages of this one's origin. */
export async function whyUnreachable(server: Server, foreign: boolean, stop: AbortSignal): Promise<ConnectionRefused> {
  const { origin } = pageOf(server.url);
  const mine = foreignOrigin(origin);
  try {
    if (foreign && mine) {
      await ask(server, stop, "no-cors"); // a page of another origin may not read what it says
      return new ConnectionRefused(
        "origin",
        `${origin} takes no WebSocket from pages of ${mine}. Start the server with --origin ${mine}, or list it in runtime.origins.`,
        { status: 403 },
      );
    }
  } catch {
    // it does not answer HTTP either
  }
  return new ConnectionRefused("unreachable", `${origin} cannot be reached. Is the server running, and is this its address?`);
}

/**
 * Returns when the server has loaded its model again, or when a connection has to tell. `waitAs` waits in a state. It waits before the
 * first question too, because the bye comes before the model ends.
 */
export async function untilHealthy(
  server: Server,
  reason: string,
  waitAs: (state: Restarting, milliseconds: number) => Promise<void>,
  stop: AbortSignal,
): Promise<void> {
  let state: Restarting = { status: "restarting", reason, progress: null };
  for (let wait = FIRST_WAIT; ; ) {
    await waitAs(state, wait);
    wait = WAIT;
    try {
      const answer = await unlessAborted(ask(server, stop, "cors"), stop);
      if (answer.ok) return;
      wait = Math.min(1000 * Number(answer.headers.get("retry-after")) || wait, LONGEST_WAIT);
      const said: { readonly reason?: unknown; readonly progress?: LoadProgress | null } = JSON.parse(
        await unlessAborted(textOf(answer), stop),
      );
      const next: Restarting = {
        status: "restarting",
        reason: typeof said.reason === "string" ? said.reason : state.reason,
        progress: said.progress ?? null,
      };
      if (JSON.stringify(next) !== JSON.stringify(state)) state = next;
    } catch {
      stop.throwIfAborted();
      // It does not listen yet; or this page's origin may not read the answer, and then a connection tells.
      if (foreignOrigin(pageOf(server.url).origin)) return;
    }
  }
}

/** A server that takes the question and never answers counts as one that does not listen. */
function ask({ url, fetch }: Server, stop: AbortSignal, mode: RequestMode): Promise<Response> {
  const asked = new AbortController();
  for (const end of [stop, AbortSignal.timeout(LONGEST_WAIT)]) end.addEventListener("abort", () => asked.abort(), asked);
  return fetch(new URL("health", pageOf(url)), { cache: "no-store", mode, signal: asked.signal });
}

/** The origin of the page, if it has another one than the server. */
function foreignOrigin(server: string): string | false | undefined {
  const origin = globalThis.location?.origin;
  return origin !== server && origin;
}
