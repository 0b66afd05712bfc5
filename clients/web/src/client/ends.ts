/** How a try or a session ended, in the words of this package: what the server said of it, as an error. */
import { ConnectionRefused, meaningOf, SessionEnded } from "../wire/errors.ts";
import type { Bye } from "../wire/messages.ts";
import { BROKEN, type Closed } from "../wire/protocol.ts";

/** Reasons of `reactor.bye` after which the same client is not wanted again. */
export const FINAL: ReadonlySet<string> = new Set(["done", "taken_over", "revoked", "idle"]);

const GONE = "The link was lost, and when it was back the session was over.";
const LATE = "The link was lost, and did not come back in time.";
const REFUSED = "The link was lost, and when it was back the server refused it:";

/** A session that had begun is over. */
export function sessionEnded({ reason, message, code }: Closed): SessionEnded {
  return new SessionEnded(
    reason ?? "lost",
    code,
    message || (reason === null ? "The connection was lost." : `The session ended: ${reason}.`),
    message,
  );
}

/** A refusal that the server told in a `reactor.bye`. */
function refused({ status = null, message, retry_after: retryAfter = null, code: refusal = null }: Bye): ConnectionRefused {
  const words = message || `The server refused with status ${status}.`;
  return new ConnectionRefused(meaningOf(refusal, status), words, { status, retryAfter, refusal });
}

/** Why the server, or the link to it, ended a try before its session began; null if no connection was ever open. */
export function saidByServer(closed: Closed, bye: Bye | null): ConnectionRefused | SessionEnded | null {
  if (bye?.reason === "refused") return refused(bye);
  if (closed.reason === BROKEN) return new ConnectionRefused("refused", closed.message);
  if (bye !== null)
    return FINAL.has(bye.reason)
      ? sessionEnded(closed)
      : new ConnectionRefused("busy", closed.message || `The server ended the try: ${bye.reason}.`, { reason: bye.reason });
  return closed.opened ? new ConnectionRefused("busy", closed.message || "The connection was lost before the session began.") : null;
}

/** What `Session.end` is given for a link that did not come back: `answer` is that of `comeBack`. */
export function whyNotResumed(answer: "gone" | "late" | Bye): [message: string, reason: string | null] {
  if (typeof answer === "string" || answer.reason === "client_left") return [answer === "late" ? LATE : GONE, null];
  return answer.reason === "refused" ? [`${REFUSED} ${refused(answer).message}`, null] : [answer.message ?? "", answer.reason];
}
