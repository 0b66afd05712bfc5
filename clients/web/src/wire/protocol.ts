/**
 * Wire protocol, version 1, for browsers and Node: all but the code that decodes and encodes packets, which a session gets where
 * somebody takes or sends them. `packet-session.ts` is the whole protocol.
 *
 * Each message of the server becomes one event of the session, in the server's order. This module does not
 * reconnect, pace or draw; but a session can continue over another socket (`resume`) without losing commands or messages.
 */

import type { Admitted, ModelSchema, Role, Settings, TrackDescription, Welcome } from "./messages.ts";
import type { Packet } from "./packet.ts";
import { Session } from "./session.ts";
import { openSocket, type SocketOptions } from "./socket.ts";

export { BROKEN, type Resumption } from "./session.ts";
export type * from "./session-events.ts";
export { type CodecList, openSocket, pageOf, type SocketOptions, SUBPROTOCOL } from "./socket.ts";
export { type ModelSchema, type Packet, type Role, Session, type Settings, type TrackDescription, type Welcome };

export interface SessionOptions extends Omit<SocketOptions, "follow"> {
  url: string;
  comesBack?: boolean | undefined;
}

/**
 * Opens a session and returns its `Session` at once; the session's events report the progress of the connection. Options:
 *
 *   url        the WebSocket address without a query. It may be that of a gate: the session then begins at the replica that the
 *              gate assigns, and the replica gets the gate's ticket instead of `token`
 *   video      codecs that the caller can show, best first, as a list or comma-separated ("h264", "vp8", "vp9", "av1",
 *              "lossless", "jpeg", "raw", "none")
 *   audio      the same for sound ("opus", "pcm_s16le", "none")
 *   role       "control" or "viewer"
 *   model, token   left out if empty
 *   feedback   the caller is going to send feedback, so the server uses a congestion window from the first frame on
 *   resume, after  the resume token of a session, and the number of its last received message: continue that session, if the
 *              server still has it
 *   comesBack  the caller handles the event `lost`
 *   beat, refusalsAsBye, worlds, fork, world   see `SocketOptions`
 */
export function connect(options: SessionOptions): Session;
export function connect<S extends Session>(options: SessionOptions, make: new (...args: ConstructorParameters<typeof Session>) => S): S;
export function connect({ comesBack = false, ...options }: SessionOptions, make: typeof Session = Session): Session {
  const follow = ({ url, ticket }: Admitted): WebSocket => openSocket({ ...options, url, token: ticket, resume: null, after: null });
  return new make(openSocket({ ...options, follow: true }), { ...options, comesBack, follow });
}
