/** What a session tells: the details of its events, and the answer to a command. */
import type { Bye, Ending, ErrorReport, Late, Queued, Settings, TrackDescription, Welcome, WorldChange } from "./messages.ts";
import type { Packet } from "./packet.ts";

/** The events of a session, by name; each is a `CustomEvent` with this `detail`. */
export interface SessionEvents {
  /** The client waits; `position` counts from 1. */
  queued: Queued;
  /** A gate has assigned this address; `session.url` is set, and the session begins there. */
  admitted: { url: string };
  /** The server is going to end the session; null seconds take that back. */
  ending: Ending;
  /** Code of the model takes long; null: not any more. */
  late: Late;
  /** The session has begun; `session.welcome` and `session.tracks` are set. */
  welcome: Welcome;
  /** Changed values of settings; `session.state` has all values. */
  state: Settings;
  /** Size or codec changed, before the first frame with it. */
  track: TrackDescription;
  /** The session was paused, or goes on; `session.paused` says the same. */
  transport: { readonly paused: boolean };
  /** The world is that of an earlier moment, before a picture of it; with the option `worlds`. */
  moment: WorldChange;
  /** Its `payload` is a view, valid as long as it is referenced. */
  frame: Packet;
  /** The server needs a keyframe to go on decoding an input track. */
  keyframe: { track: number };
  /** Give feedback for a track only so often, in microseconds; 0: for each frame. */
  cadence: { track: number; every_us: number };
  /** A message of the model. */
  message: ModelMessage;
  /** A command was given, and sent or queued. */
  sent: { id: number; type: string };
  /** An error that answers no command of this client, or an invalid message. */
  error: ErrorReport;
  /** The server ends the session; `closed` follows. */
  bye: Bye;
  /** With `comesBack`: the link is lost, the server keeps the session; call `resume` or `end`. */
  lost: { code: number };
  /**
   * The session goes on; `missed` messages are lost. A `state` with all values follows, a `track` for each output track, and a `keyframe`
   * for each input track; restart decoders and encoders.
   */
  resumed: { seconds: number; missed: number };
  /** The last event; `reason` is that of `bye`, or null. */
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
