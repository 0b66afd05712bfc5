/**
 * What this package throws, but for the TypeError of a call that is wrong in itself. `code` is for programs, `message` for people; `retryable`
 * says whether the same may succeed later.
 */
export abstract class ReactorError extends Error {
  abstract readonly code: string;
  readonly retryable: boolean;

  constructor(message: string, retryable = false) {
    super(message);
    this.retryable = retryable;
  }
}

type Meaning = "busy" | "token_wanted" | "wrong_model";

/** What the codes of refusals (docs/reference/protocol.md) mean for a client: the same may succeed later, or another token may help. */
const MEANINGS: readonly (readonly [codes: RegExp, meaning: Meaning | "refused"])[] = [
  [/^(not_found|no_world|too_many_files)$/, "refused"], // whose statuses mean something else without a code
  [
    /^(request_timeout|uploads_under_way|address_.+|connections|loading|failed|draining|full|no_session|not_decided|tickets_full|429|503)$/,
    "busy",
  ],
  [/^(token_.+|unclaimed|401)$/, "token_wanted"],
  [/^(wrong_model|404)$/, "wrong_model"],
];

/** What a refusal means: by its code, or by its status if it has no code that this client knows. */
export function meaningOf(refusal: string | null, status: number | null): Meaning | "refused" {
  for (const key of [refusal, status]) for (const [codes, meaning] of MEANINGS) if (codes.test(`${key}`)) return meaning;
  return "refused";
}

/** The server did not let this client in, or could not be reached. */
export class ConnectionRefused extends ReactorError {
  override readonly name = "ConnectionRefused";
  readonly code: Meaning | "refused" | "origin" | "unreachable";
  /** The HTTP status of the refusal; null if there was no answer. */
  readonly status: number | null = null;
  /** Seconds after which the server wants the next try; null if it did not say. */
  readonly retryAfter: number | null = null;
  /** The reason of the `reactor.bye` that ended the try before a session began; null if there was none. */
  readonly reason: string | null = null;
  /** The server's own code of the refusal, one of those in docs/reference/protocol.md; null if it gave none. */
  readonly refusal: string | null = null;

  constructor(
    code: ConnectionRefused["code"],
    message: string,
    facts: Partial<Pick<ConnectionRefused, "status" | "retryAfter" | "reason" | "refusal" | "cause">> = {},
  ) {
    super(message, code === "busy" || code === "unreachable");
    this.code = code;
    Object.assign(this, facts);
  }
}

/** A session that had begun is over. `reason` is that of `reactor.bye` (docs/reference/protocol.md), or `lost`. */
export class SessionEnded extends ReactorError {
  override readonly name = "SessionEnded";
  readonly code = "ended";
  readonly reason: string;
  readonly closeCode: number;
  /** What the server said of it; "" if it gave the reason alone. */
  readonly detail: string;

  constructor(reason: string, closeCode: number, message: string, detail: string = "") {
    super(message);
    this.reason = reason;
    this.closeCode = closeCode;
    this.detail = detail;
  }
}

/**
 * A command changed nothing, or it is unknown whether it did (`applied`). `code` is one of the protocol's, the model author's own,
 * `busy` (too many commands wait), `answer_lost`, or `ended`.
 */
export class CommandError extends ReactorError {
  override readonly name = "CommandError";
  readonly code: string;
  readonly command: string;
  /** The command's number in the session; 0 if it was not sent. */
  readonly id: number;
  /** Where the fault is, such as `$.brightness`; null if the error names no place. */
  readonly path: string | null;
  readonly applied: false | "unknown";

  constructor(code: string, message: string, command: string, id = 0, applied: false | "unknown" = false) {
    super(message || code, code === "busy");
    this.code = code;
    this.command = command;
    this.id = id;
    this.path = / - at (\$\S*)$/.exec(message)?.[1] ?? null;
    this.applied = applied;
  }
}

/** The server did not take a file; `status` is 0 if the connection broke, `refusal` the server's own code, null if it gave none. */
export class UploadRefused extends ReactorError {
  override readonly name = "UploadRefused";
  readonly code = "upload";
  readonly status: number;
  readonly refusal: string | null;

  constructor(message: string, status: number, refusal: string | null = null) {
    super(message, status === 0 || meaningOf(refusal, status) === "busy");
    this.status = status;
    this.refusal = refusal;
  }
}

/** The browser gives no camera or microphone; "ended": it has given one, which was disconnected, or whose use was stopped. */
export class MediaError extends ReactorError {
  override readonly name = "MediaError";
  readonly code: "not_allowed" | "not_found" | "in_use" | "insecure" | "unsupported" | "ended";

  constructor(code: MediaError["code"], message: string) {
    super(message, code === "in_use");
    this.code = code;
  }
}
