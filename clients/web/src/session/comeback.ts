/** Resumes a session after a lost link, for as long as the server keeps it; and how long to wait before another one. */

import { meaningOf } from "../wire/errors.ts";
import type { Bye, Welcome } from "../wire/messages.ts";
import type { Resumption } from "../wire/protocol.ts";

const FIRST_WAIT = 100;
const LONGEST_WAIT = 2000;
const FIRST_BACKOFF = 500;
const LONGEST_BACKOFF = 8000;
const FIRST_PATIENCE = 2000;
const LONGEST_PATIENCE = 10_000;
/** Seconds to try if the server keeps sessions without a time limit, or if it is not known how long. */
export const WINDOW = 60;

/** A session that can be resumed; its welcome is set. */
export interface Resumable {
  readonly welcome: Pick<Welcome, "resume_window"> | null;
  readonly over?: boolean;
  resume(socket: WebSocket, patience: number): Promise<Resumption>;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Whether the server, or a proxy in front of it, has refused for now: the same may succeed later. */
export const forNow = (bye: Bye): boolean => bye.reason === "refused" && meaningOf(bye.code ?? null, bye.status ?? null) === "busy";

/**
 * Tries to resume the session. Resolves with "resumed", "gone" if the server no longer has the session, what the server said instead
 * of it, or "late" if the time is over. `open()` opens a WebSocket to the session, or rejects after `patience` milliseconds. The waits
 * grow and are random, so that the pages of a restarted server do not all connect at once; a server that refuses may want a longer one.
 */
export async function comeBack(
  session: Resumable,
  open: (patience: number) => WebSocket | Promise<WebSocket>,
  {
    random = Math.random,
    sleep = pause,
    now = () => performance.now(),
  }: {
    readonly random?: () => number;
    readonly sleep?: (ms: number) => Promise<void>;
    readonly now?: () => number;
  } = {},
): Promise<"resumed" | "gone" | "late" | Bye> {
  const end = now() + 1000 * (session.welcome?.resume_window ?? WINDOW);
  let wanted = 0;
  for (let tries = 0; ; tries++) {
    const wait = Math.max(Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT) * random(), wanted);
    await sleep(Math.min(wait, Math.max(0, Math.ceil(end - now())))); // which may end sooner
    if (session.over) return "gone"; // it was left meanwhile
    if (now() >= end) return "late";
    const patience = Math.ceil(Math.min(FIRST_PATIENCE * 2 ** tries, LONGEST_PATIENCE, end - now()));
    try {
      const answer = await session.resume(await open(patience), patience);
      const refused = typeof answer === "object" && forNow(answer);
      if (answer !== "failed" && !refused) return answer;
      wanted = refused ? 1000 * (answer.retry_after ?? 0) : 0;
    } catch {
      // no socket could be made; another one may be
    }
  }
}

/** Milliseconds to wait before try number `attempt` (from 0): 0.5 s, doubling up to 8 s, randomly a quarter more or less. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  return Math.min(FIRST_BACKOFF * 2 ** attempt, LONGEST_BACKOFF) * (0.75 + random() / 2);
}
