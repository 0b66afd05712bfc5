/** What a session tells: the details of its events, and the answer to a command. */
import type { Bye, Ending, ErrorReport, Late, Queued, Settings, TrackDescription, Welcome } from "./messages.ts";
import type { Packet } from "./packet.ts";

/** The details of a session's events, by name; `Session` says what they mean. */
export interface SessionEvents {
  queued: Queued;
  admitted: { url: string };
  ending: Ending;
  late: Late;
  welcome: Welcome;
  state: Settings;
  track: TrackDescription;
  transport: { readonly paused: boolean };
  frame: Packet;
  keyframe: { track: number };
  cadence: { track: number; every_us: number };
  message: ModelMessage;
  sent: { id: number; type: string };
  error: ErrorReport;
  bye: Bye;
  lost: { code: number };
  resumed: { seconds: number; missed: number };
  closed: Closed;
}

/** A message of the model; `n` counts the server's messages in the session. */
export interface ModelMessage {
  readonly type: string;
  readonly data: { readonly [field: string]: unknown };
  readonly n?: number;
}

/** How a session ended. */
export interface Closed {
  readonly code: number;
  readonly reason: string | null;
  readonly message: string;
  /** Whether the socket was ever open, and whether the session ever began. */
  readonly opened: boolean;
  readonly welcomed: boolean;
}

/** The answer to a command that was applied: in which step of the model, and what its handler returned. */
export interface Applied {
  readonly id: number;
  readonly step: number;
  readonly reply: unknown;
}
