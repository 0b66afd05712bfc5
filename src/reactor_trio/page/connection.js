/**
 * The page's connection to the server. It connects, and reconnects at growing intervals when a session ends.
 *
 * A browser does not tell a page why a WebSocket was refused, so the page then asks `/health`, and asks `/schema` whether
 * a token is needed. Some ends are final: the server ended the session on purpose, and the page does not reconnect. While
 * the server reloads its model, the page asks `/health` until it answers 200, and then connects at once. A session
 * whose link was lost is resumed if the server keeps it, also after a reload of the page; otherwise a new session begins.
 *
 * The server may be a gate, with the session at one of its replicas. The page resumes such a session at the replica, with the
 * resume token alone. If that fails, a new session begins at the gate, which knows the current replicas.
 */
import { comeBack } from "./comeback.js";
import { connect, openSocket } from "./protocol.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
const SETTLED = 5000;
const FIRST_HEALTH_WAIT = 250;
const LONGEST_HEALTH_WAIT = 2000;

export const FINAL = new Set(["done", "taken_over", "revoked", "idle"]);

const REASONS = {
  done: "The session is over.",
  client_left: "The session was left.",
  unclaimed: "The session was not taken up in time.",
  expired: "The session's time is up.",
  idle: "The session ended because nothing was done for a while.",
  taken_over: "Another client has taken over this session.",
  revoked: "Access to this session was withdrawn.",
  draining: "The server is shutting down.",
  protocol_error: "The server did not understand this page.",
  too_slow: "The connection was too slow for the pictures.",
  flood: "Too many commands were left unanswered.",
  too_big: "A message was larger than the server takes.",
  model_error: "The model failed.",
  model_restarting: "The model is being reloaded.",
  replica_failed: "The machine that ran the model failed.",
  no_room: "There is no room for another client.",
};

/** Why a lost session cannot be resumed. */
const LOST = {
  gone: "The connection was lost, and when it was back the session was over.",
  late: "The connection was lost, and did not come back in time.",
};

/** Why the session ended, as text: the reason of `reactor.bye`, and the server's message. */
export function describeEnd({ reason, message, welcomed }) {
  if (reason === null && message) return message;
  if (reason === null) return welcomed ? "The connection was lost." : "The connection was lost before the session began.";
  const words = REASONS[reason] ?? `The session ended: ${reason}.`;
  return message ? `${words} ${message}` : words;
}

/** Milliseconds to wait before try number `attempt` (from 0): 0.5 s, doubling up to 8 s, randomly a quarter more or less. */
export function backoff(attempt, random = Math.random) {
  return Math.min(FIRST_WAIT * 2 ** attempt, LONGEST_WAIT) * (0.75 + random() / 2);
}

/** Whether the server at `base` is healthy, and its reason if not. */
async function askHealth(base, fetch = globalThis.fetch) {
  try {
    const answer = await fetch(new URL("health", base), { cache: "no-store" });
    const { reason } = await answer.json().catch(() => ({}));
    return { healthy: answer.ok, reason: typeof reason === "string" ? reason : "" };
  } catch {
    return { healthy: false, reason: "" }; // it is restarting
  }
}

/** Finds out why the server at `base` refused a WebSocket with these options, as {final, text, tokenWanted}. */
export async function diagnose(base, { model, role, token }, fetch = globalThis.fetch) {
  const asking = { cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} };
  let answer;
  let schema = null;
  let health;
  try {
    answer = await fetch(new URL("health", base), asking);
    health = await answer.json().catch(() => ({}));
    // Without a valid credential `/health` has no details, but `/schema` says why.
    if (health.model === undefined) schema = await fetch(new URL("schema", base), asking);
  } catch {
    return { final: false, text: "The server cannot be reached." };
  }
  if (schema?.status === 401) {
    const why = token ? `Not let in: ${(await schema.text()).trim()}.` : "This server wants a token.";
    return { final: true, tokenWanted: true, text: why };
  }
  if (health.role === "viewer" && role !== "viewer") {
    return { final: true, tokenWanted: true, text: "This token can only watch: add role=viewer to the address, or show another." };
  }
  if (model && typeof health.model === "string" && health.model !== model) {
    return { final: true, text: `This server runs the model “${health.model}”, not “${model}”.` };
  }
  if (answer.ok && role === "viewer" && health.sessions === 0) {
    return { final: false, text: "There is no session to watch yet." };
  }
  const detail = answer.ok ? "" : (health.reason ?? health.phase ?? "");
  return { final: false, text: `Server not ready or busy${detail ? `: ${detail}` : ""}.` };
}

/** At a replica the page may only resume its old session. A new session must begin at the gate, so the page leaves it here. */
function leaveUnlessResumed(session) {
  for (const type of ["queued", "welcome"]) session.addEventListener(type, (event) => {
    if (session.welcome?.resumed) return;
    event.stopImmediatePropagation();
    session.close();
  });
}

/**
 * Events, with their `detail`:
 *
 *   connecting  the new Session, before its first event
 *   reloading   {text}; the server reloads its model. Sent again when the text changes; `connecting` follows
 *   ended       {text, wait, tokenWanted}; `wait` is the milliseconds to the next try, or null if the next try needs
 *               `connectNow()`. With `tokenWanted` it also needs another `options.token`
 */
export class Connection extends EventTarget {
  #base;
  #options;
  #saved;
  #session = null;
  #attempt = 0;
  #timer = null;

  /** `base` is the page's address, `options` those of `connect` without `url`, `saved` a `SavedSession`. */
  constructor(base, options, saved) {
    super();
    this.#base = base;
    this.#options = options;
    this.#saved = saved;
  }

  /** Connects now: the first time, or instead of waiting for the next try. */
  connectNow() {
    clearTimeout(this.#timer);
    this.#attempt = 0;
    this.#open();
  }

  /** Saves the session before the page unloads, so that a reload can resume it. */
  saveSession() {
    if (this.#session?.welcome) this.#saved.save(this.#session);
  }

  /** The browser has lost its network. Drops the link now; the socket itself would notice only much later. */
  offline() {
    this.#session?.drop();
  }

  #url() {
    const url = new URL("ws", this.#base);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url.href;
  }

  async #comeBack(session) {
    const open = () => {
      const { url, welcome, newest } = session;
      return openSocket({ ...this.#options, url, token: this.#credentialFor(url), resume: welcome.resume_token, after: newest });
    };
    const answer = await comeBack(session, open);
    if (answer !== "resumed") session.end(LOST[answer]);
  }

  /** The credential for the server at `url`. A replica never gets the gate's token. */
  #credentialFor(url) {
    return url === this.#url() ? this.#options.token : undefined;
  }

  #open() {
    const saved = this.#saved.load();
    const url = saved?.url ?? this.#url();
    const atReplica = url !== this.#url();
    const session = (this.#session = connect({ ...this.#options, ...saved, url, token: this.#credentialFor(url), comesBack: true }));
    if (atReplica) leaveUnlessResumed(session);
    let since = Infinity;
    session.addEventListener("welcome", () => {
      since = performance.now();
      this.#saved.save(session);
    });
    session.addEventListener("lost", () => this.#comeBack(session));
    session.addEventListener("closed", async ({ detail }) => {
      this.#session = null;
      this.#saved.save(null);
      if (atReplica && !session.welcome?.resumed) {
        this.#open();
        return;
      }
      // A session that ends right after its welcome counts as a failed try, so that a broken model does not get two tries a second.
      if (performance.now() - since > SETTLED) this.#attempt = 0;
      if (detail.reason === "model_restarting") {
        this.#reload(describeEnd(detail));
        return;
      }
      const end = { final: FINAL.has(detail.reason), text: describeEnd(detail) };
      this.#ended(detail.opened ? end : await diagnose(this.#base, this.#options));
    });
    this.dispatchEvent(new CustomEvent("connecting", { detail: session }));
  }

  /** Asks until the server is healthy. Waits before the first question too, because `reactor.bye` comes before the reload begins. */
  #reload(text, attempt = 0) {
    this.dispatchEvent(new CustomEvent("reloading", { detail: { text } }));
    const wait = Math.min(FIRST_HEALTH_WAIT * 1.25 ** attempt, LONGEST_HEALTH_WAIT);
    this.#timer = setTimeout(async () => {
      const { healthy, reason } = await askHealth(this.#base);
      if (healthy) this.#open();
      else this.#reload(reason ? `${REASONS.model_restarting} ${reason}` : text, attempt + 1);
    }, wait);
  }

  #ended({ final, text, tokenWanted = false }) {
    const wait = final ? null : backoff(this.#attempt++);
    if (!final) this.#timer = setTimeout(() => this.#open(), wait);
    this.dispatchEvent(new CustomEvent("ended", { detail: { text, wait, tokenWanted } }));
  }
}
