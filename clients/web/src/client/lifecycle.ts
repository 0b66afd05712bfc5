/**
 * The life of a client: it connects, resumes a lost link, waits and tries again, and ends. It knows sessions, not what they carry.
 *
 *     connecting -> live <-> resuming          resuming -> ended, or with newSession "after-loss": connecting
 *       |   ^  \-> queued -> live              live -> restarting (the model is loaded again) -> connecting
 *       v   |                                  any -> ended: close(), a final reason, resume given up
 *     waiting (says the error, and when it tries next)        ended -> connecting: reconnect() only
 */
import { backoff, comeBack, forNow, WINDOW } from "../session/comeback.ts";
import { ConnectionRefused, SessionEnded } from "../wire/errors.ts";
import type { Bye } from "../wire/messages.ts";
import type { Closed, Session, SocketOptions } from "../wire/protocol.ts";
import { connect, openSocket } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { Emitter } from "./emitter.ts";
import { FINAL, saidByServer, sessionEnded, whyNotResumed } from "./ends.ts";
import { watchLink } from "./link-watch.ts";
import { SavedSessions } from "./saved-sessions.ts";
import { untilHealthy, whyUnreachable } from "./server-health.ts";
import { sessionInfo } from "./session-info.ts";
import type { ClientState, GiveToken, Memory } from "./types.ts";

/** A session that ends sooner counts as a failed try, so that a broken model does not get two tries a second. */
const SETTLED = 5000;

export interface LifecycleOptions {
  /** The WebSocket address, without a query. */
  url: string;
  /** Awaited before the first connection, also of each `start` after the end. */
  prepare: () => Promise<void>;
  /** What to ask for, at each connection. */
  ask: () => Pick<SocketOptions, "video" | "tracks" | "paused" | "audio" | "role" | "model">;
  /** Read before each connection. */
  readonly token: string | GiveToken | null | undefined;
  resume: boolean;
  /** Where the first session begins. */
  begin: Pick<SocketOptions, "fork" | "world">;
  newSession: "never" | "after-loss";
  memory: Memory | null;
  WebSocket: SocketOptions["WebSocket"];
  fetch: typeof fetch;
}

interface LifecycleEvents {
  state: ClientState;
  /** A session that has no events yet. */
  session: Session;
  /** Why sessions are not saved. */
  unsaved: string;
}

/** A token, or none; or why the application gave none. */
type GivenToken = string | null | undefined | ConnectionRefused;

/** How a try, or a session, ended. */
interface Outcome {
  readonly closed: Closed;
  readonly bye: Bye | null;
  /** How long the session was live, in milliseconds; 0 if it never was. */
  readonly lived: number;
}

export class Lifecycle extends Emitter<LifecycleEvents> {
  #options: LifecycleOptions;
  #state: ClientState = Object.freeze({ status: "connecting", attempt: 0 });
  #session: Session | null = null;
  /** Aborted by `close`; a new one for each `reconnect` after the end. */
  #stop = new AbortController();
  #tryNow: () => void = () => {};
  #running = false;
  /** How often it has waited since a session settled, or since somebody wanted a try now. */
  #attempt = 0;
  /** Whether the server has let this page in. */
  #letIn = false;
  /** Until when a saved session is asked for again, as `performance.now()`. */
  #savedUntil = 0;
  #saved: SavedSessions;
  /** Where the next session begins; the first one alone begins at a saved world. */
  #begin: LifecycleOptions["begin"];
  /** Whether the browser keeps this page to go back to, or did, and no session went on since: as on a page that is loaded, one may begin. */
  #kept = false;

  constructor(options: LifecycleOptions) {
    super();
    this.#options = options;
    const { fork, world } = (this.#begin = options.begin);
    this.#saved = new SavedSessions(options.memory, fork ?? world, (why) => this.emit("unsaved", why));
  }

  get state(): ClientState {
    return this.#state;
  }

  /** The session of the present state `live` or `resuming`, or the one that is being asked for; null if there is none. */
  get session(): Session | null {
    return this.#session;
  }

  /** Begins to connect, or tries now instead of waiting. After the end it connects again. */
  start(): void {
    this.#attempt = 0;
    this.#tryNow();
    if (this.#running) return;
    this.#running = true;
    this.#savedUntil = performance.now() + 1000 * WINDOW;
    this.#stop = new AbortController();
    const stop = this.#stop.signal;
    const ears = new AbortController();
    this.#listenToBrowser(ears.signal);
    void this.#live(stop)
      .catch((error: unknown) => {
        return stop.aborted ? null : new ConnectionRefused("refused", `The client failed: ${error}`, { cause: error });
      })
      .then((end) => {
        ears.abort();
        this.#running = false;
        this.#session = null;
        this.#saved.forget();
        this.#set({ status: "ended", end });
      });
  }

  /** Leaves the session, and ends. */
  close(): void {
    const unused = !this.#running && this.#state.status !== "ended";
    const session = this.#session; // the abort may end this client at once: WebKit can run promises' callbacks within it
    this.#stop.abort();
    session?.close();
    this.#tryNow();
    if (unused) this.#set({ status: "ended", end: null });
  }

  #set(state: ClientState): void {
    this.#state = Object.freeze(state);
    this.emit("state", this.#state);
  }

  /** Tries until something ends the client, and returns what. Rejects as soon as `stop` aborts, whatever it waits for. */
  async #live(stop: AbortSignal): Promise<SessionEnded | ConnectionRefused> {
    await unlessAborted(this.#options.prepare(), stop);
    let refusal: ConnectionRefused | null = null; // of the token, until another one is tried
    let tries = 0; // that seem to have been refused because of the origin, one after another; a single one may be a proxy's fault
    for (;;) {
      this.#set({ status: "connecting", attempt: this.#attempt });
      const token: GivenToken = await unlessAborted(this.#token(refusal === null ? "first" : "refused"), stop);
      if (refusal !== null && token === null) return refusal; // there is no other token
      if (token instanceof ConnectionRefused) return token;
      const outcome: Outcome | null = await unlessAborted(this.#oneSession(token), stop);
      if (outcome === null) continue; // what was saved of an earlier session is over
      const { closed, lived }: Outcome = outcome;
      if (closed.welcomed && closed.reason === "model_restarting") {
        this.#attempt = 0;
        await untilHealthy(this.#options, closed.message, (state, wait) => this.#waitAs(state, wait), stop);
        continue;
      }
      const error: SessionEnded | ConnectionRefused = closed.welcomed
        ? sessionEnded(closed)
        : (saidByServer(closed, outcome.bye) ?? (await unlessAborted(whyUnreachable(this.#options, !this.#letIn, stop), stop)));
      if (error.code === "token_wanted" && refusal === null && typeof this.#options.token === "function") {
        refusal = error;
        continue;
      }
      refusal = null;
      tries = error.code === "origin" ? tries + 1 : 0;
      if (
        error instanceof SessionEnded
          ? FINAL.has(error.reason) || (this.#options.newSession === "never" && !this.#kept)
          : !error.retryable && tries !== 1
      )
        return error;
      if (lived > SETTLED) this.#attempt = 0;
      const asked = error instanceof ConnectionRefused ? error.retryAfter : null;
      const wait = Math.max(backoff(this.#attempt++), 1000 * (asked ?? 0));
      await this.#waitAs({ status: "waiting", error, retryAt: performance.now() + wait }, wait);
    }
  }

  async #token(why: "first" | "refused"): Promise<GivenToken> {
    const { token } = this.#options;
    if (typeof token !== "function") return token;
    try {
      return await token(why);
    } catch (error) {
      return new ConnectionRefused("token_wanted", `The option "token" gave no token: ${(error as Error)?.message ?? error}`);
    }
  }

  /**
   * One session from its first socket to its end. Null if it was a saved one at a replica that could not be resumed. A saved session stays
   * saved while the server has said nothing of it: the next try asks for it again.
   */
  #oneSession(token: string | null | undefined): Promise<Outcome | null> {
    const { url: first, resume } = this.#options;
    const saved = resume ? this.#saved.load() : null;
    const url = saved?.url ?? first;
    const atReplica = url !== first;
    // A replica takes the resume token alone; the gate's token stays at the gate.
    const session = connect({
      ...this.#request(url, atReplica ? undefined : token),
      ...this.#begin,
      ...saved,
      comesBack: resume,
    });
    this.#session = session;
    const ears = new AbortController();
    const { signal } = ears;
    let since = Number.POSITIVE_INFINITY;
    let bye: Bye | null = null;
    return new Promise((resolve) => {
      const on: Session["addEventListener"] = (type, listener) => session.addEventListener(type, listener, { signal });
      // At a replica only the old session may go on; a new one begins at the gate.
      const stranger = (event: Event): void => {
        if (!atReplica || session.welcome?.resumed) return;
        event.stopImmediatePropagation();
        session.close();
      };
      let known = saved === null;
      for (const type of ["queued", "welcome"] as const) {
        on(type, () => {
          if (!known) this.#saved.forget(); // `#goOn` saves what goes on, or has begun
          known = true;
        });
        on(type, stranger);
      }
      watchLink(session, signal);
      on("queued", ({ detail: { position, total, wait, reason } }) => {
        this.#set({ status: "queued", position, total, wait: wait ?? null, ...(reason ? { reason } : {}) });
      });
      on("welcome", () => {
        since = performance.now();
        this.#letIn = true;
        this.#begin = {};
        this.#goOn(session);
      });
      on("lost", () => {
        this.#set({ status: "resuming", session: sessionInfo(session), since: performance.now() });
        void this.#comeBack(session);
      });
      on("resumed", () => this.#goOn(session));
      on("bye", ({ detail }) => {
        bye = detail;
      });
      on("closed", ({ detail: closed }) => {
        ears.abort();
        this.#session = null;
        const unknown = !known && (bye === null ? closed.opened || !atReplica : forNow(bye)) && performance.now() < this.#savedUntil;
        if (!unknown) this.#saved.forget();
        const lost = atReplica && !session.welcome?.resumed && !unknown;
        resolve(lost ? null : { closed, bye, lived: Math.max(0, performance.now() - since) });
      });
      this.emit("session", session);
    });
  }

  #goOn(session: Session): void {
    this.#kept = false;
    this.#saved.save(this.#session);
    this.#set({ status: "live", session: sessionInfo(session) });
  }

  /** What every socket of this client asks for. */
  #request(url: string, token: string | null | undefined): SocketOptions & { url: string } {
    const { WebSocket } = this.#options;
    return { ...this.#options.ask(), url, token, feedback: true, cadence: true, beat: true, refusalsAsBye: true, worlds: true, WebSocket };
  }

  async #comeBack(session: Session): Promise<void> {
    const answer = await comeBack(session, (patience) => this.#open(session, patience), { sleep: (ms) => this.#pause(ms) });
    if (answer !== "resumed") session.end(...whyNotResumed(answer));
  }

  async #open({ url, welcome, newest }: Session, patience: number): Promise<WebSocket> {
    const token = url === this.#options.url ? await unlessAborted(this.#token("first"), AbortSignal.timeout(patience)) : undefined;
    const request = this.#request(url, token instanceof ConnectionRefused ? undefined : token);
    return openSocket({ ...request, resume: welcome?.resume_token, after: newest });
  }

  /** Waits in this state, which is told once, until `close`. Who hears it may want the next try now. */
  async #waitAs(state: ClientState, milliseconds: number): Promise<void> {
    const over = this.#pause(milliseconds);
    if (state !== this.#state) this.#set(state);
    await unlessAborted(over, this.#stop.signal);
  }

  /** Resolves after the time, or as soon as somebody wants the next try now. */
  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#tryNow = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #listenToBrowser(signal: AbortSignal): void {
    if (globalThis.document === undefined) return;
    const ears = { signal };
    addEventListener(
      "offline",
      () => {
        // Another session may still have its link, to this machine; the watch knows soon.
        if (this.#options.resume && this.#session?.welcome?.resume_token) this.#session.drop();
      },
      ears,
    );
    addEventListener("online", () => this.#tryNow(), ears);
    addEventListener(
      "pagehide",
      ({ persisted }) => {
        this.#kept = persisted;
        if (this.#options.memory !== null) this.#saved.save(this.#session);
        else this.#session?.close(); // this page will not resume it, so the next client need not wait for it
      },
      ears,
    );
  }
}
