/**
 * What the page says of a session that ended, or did not begin.
 *
 * The page is of the same origin as its server (or gate), so it may read what a page elsewhere may not: it asks `/health` why there
 * is no session, and `/schema` whether a token is needed.
 */
import { ConnectionRefused, type LoadProgress, type ModelSchema, type ReactorError, SessionEnded } from "../src/index.ts";
import { isLoopback } from "./loopback.ts";
import { fillIn, STRINGS } from "./strings.ts";

/** Why there is no session; after a final end the page does not try again by itself. */
export interface Diagnosis {
  readonly final: boolean;
  readonly text: string;
  /** What whoever sees it can do. */
  readonly note?: string;
  /** What only some people want to know. */
  readonly details?: string;
  /** How far the model's load is, while it loads. */
  readonly loading?: LoadProgress;
  /** What kind of end it is, for the drawing. */
  readonly kind?: "failed" | "locked" | "viewing" | "lost";
  /** Whether another token may help. */
  readonly tokenWanted?: boolean;
  /** Whether the session or the world that a link was for is gone. */
  readonly linkOver?: boolean;
}

/** What the page asked for. */
export interface Wishes {
  readonly model?: string | undefined;
  readonly role?: "control" | "viewer" | undefined;
  readonly token?: string | null | undefined;
  /** Whether the server has refused for another reason than the token, which it knows. */
  readonly letIn?: boolean;
  /** Whether this page has watched a session. */
  readonly watched?: boolean;
}

/** The part of `fetch` that this module needs. */
export type Fetch = (url: URL, options: RequestInit) => Promise<Pick<Response, "ok" | "status" | "json" | "text">>;

/** Milliseconds in which a server must have answered; one that takes the question and says nothing cannot be reached. */
const PATIENCE = 10_000;

/** The answer of `/health`, as far as this module reads it. */
interface Health {
  readonly model?: unknown;
  readonly role?: unknown;
  readonly sessions?: unknown;
  readonly reason?: string | null;
  readonly phase?: string | null;
  readonly progress?: LoadProgress | null;
}

const REASONS: { readonly [reason: string]: string } = STRINGS.ends;

const FAILURES = new Set(["model_error", "replica_failed", "protocol_error", "too_big", "flood"]);

/** Why the session ended, as text: the reason of `reactor.bye`, and the server's message. */
export function describeEnd({ reason, message }: { readonly reason: string | null; readonly message: string }): string {
  if (reason === null) return message || STRINGS.lost;
  const words = REASONS[reason] ?? fillIn(STRINGS.endedBecause, { reason });
  return message ? `${words} ${message}` : words;
}

/** Why there is no session: from what the client was told, or else from what the server at `base` says now. */
export async function explain(base: string, wishes: Wishes, error: ReactorError): Promise<Diagnosis> {
  if (error instanceof SessionEnded) {
    if (error.reason === "lost") return { final: false, kind: "lost", text: error.message };
    const text = describeEnd({ reason: error.reason, message: error.detail });
    if (!FAILURES.has(error.reason ?? "")) return { final: false, text };
    // Whoever looks at a server of this computer runs it, too.
    const details = error.reason === "model_error" && !error.detail && isLoopback(base) ? STRINGS.hidden : "";
    return { final: false, kind: "failed", text, note: STRINGS.tell, details };
  }
  // A try that got as far as a session's line has told more than `/health` can.
  if (error instanceof ConnectionRefused && error.status === null && error.code === "busy")
    return { final: false, text: describeEnd({ reason: error.reason, message: error.message }) };
  // The server may have a session by now that nobody can watch yet, and `/health` counts it.
  if (error instanceof ConnectionRefused && error.refusal === "no_session")
    return {
      final: false,
      kind: "viewing",
      ...(wishes.watched ? { text: STRINGS.watchedEnded, note: STRINGS.nextSession } : { text: STRINGS.nothingToWatch }),
    };
  if (error instanceof ConnectionRefused && error.refusal === "no_world")
    return { final: true, kind: "lost", linkOver: true, text: STRINGS.noWorld };
  const letIn = error instanceof ConnectionRefused && error.status !== null && error.code !== "token_wanted";
  return diagnose(base, { ...wishes, letIn });
}

/**
 * How a server is asked with this token: in a header, which proxies do not log. Its owner may have typed anything; no token of a server
 * has a character that a header cannot carry.
 */
export const withToken = (token: string | null | undefined): RequestInit => ({
  cache: "no-store",
  headers: token ? { Authorization: `Bearer ${token.replace(/[^!-~]/g, "?")}` } : {},
});

const askingOnce = (token: string | null | undefined): RequestInit => ({ ...withToken(token), signal: AbortSignal.timeout(PATIENCE) });

/** What the model of the server at `base` says of itself at `path`; null where none is known, as at a gate or without a valid token. */
export async function askIntroduction(
  base: string,
  path: string,
  token: string | null,
  fetch: Fetch = globalThis.fetch,
): Promise<(Pick<ModelSchema, "name" | "about"> & Partial<ModelSchema>) | null> {
  const asking = askingOnce(token);
  try {
    // Without a model behind it `/schema` fails, and the browser's console would have a line about that.
    const health: Health = await (await fetch(new URL("health", base), asking)).json();
    if (health.model === undefined) return null;
    const answer = await fetch(new URL(path, base), asking);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null; // the page says elsewhere that the server cannot be reached
  }
}

/** Finds out why the server at `base` refused a WebSocket with these options, as {final, text, tokenWanted}. */
export async function diagnose(base: string, wishes: Wishes, fetch: Fetch = globalThis.fetch): Promise<Diagnosis> {
  const { model, role, token, letIn, watched } = wishes;
  const asking = askingOnce(token);
  let answer: Awaited<ReturnType<Fetch>>;
  let schema: Awaited<ReturnType<Fetch>> | null = null;
  let why = "";
  let health: Health;
  try {
    answer = await fetch(new URL("health", base), asking);
    health = await answer.json().catch(() => ({}));
    // Without a valid credential `/health` has no details, but `/schema` says why. A server that has refused for another reason knows the
    // token, from the WebSocket's query, and a proxy has put its own into the header.
    if (health.model === undefined && !letIn) schema = await fetch(new URL("schema", base), asking);
    if (schema?.status === 401) why = (await schema.text()).trim();
  } catch {
    return { final: false, kind: "lost", text: STRINGS.unreachable };
  }
  // A server of ours always says its phase.
  if (!answer.ok && (health.phase ?? health.reason) === undefined)
    return { final: false, kind: "lost", text: fillIn(STRINGS.behindProxy, { status: answer.status }) };
  // The token of a link for viewers is that of one session. A server that wants a token has said the role of one that it knows.
  const wantsNone = answer.ok && health.model !== undefined && health.role === undefined;
  if (role === "viewer" && token && (schema?.status === 401 ? watched : wantsNone))
    return { final: true, kind: "viewing", linkOver: true, text: STRINGS.watchedEnded };
  if (schema?.status === 401) {
    return { final: true, kind: "locked", tokenWanted: true, text: token ? fillIn(STRINGS.notLetIn, { why }) : STRINGS.tokenWanted };
  }
  if (health.role === "viewer" && role !== "viewer") {
    return {
      final: true,
      kind: "locked",
      tokenWanted: true,
      text: STRINGS.tokenOnlyWatches,
    };
  }
  if (model && typeof health.model === "string" && health.model !== model) {
    return { final: true, kind: "failed", text: fillIn(STRINGS.otherModel, { is: health.model, wanted: model }) };
  }
  if (answer.ok && role === "viewer" && health.sessions === 0) {
    return { final: false, kind: "viewing", text: STRINGS.nothingToWatch };
  }
  if (!answer.ok && health.phase === "loading")
    return { final: false, text: STRINGS.loading, loading: health.progress ?? { fraction: null, text: "" } };
  if (!answer.ok && health.phase === "failed")
    return { final: false, kind: "failed", text: `${STRINGS.failed}${health.reason ? `: ${health.reason}.` : "."}`, note: STRINGS.tell };
  const detail = answer.ok ? "" : (health.reason ?? health.phase ?? "");
  return { final: false, text: detail ? fillIn(STRINGS.busyBecause, { detail }) : STRINGS.busy };
}
