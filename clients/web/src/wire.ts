/** `reactor-trio/wire`: the wire protocol alone, for programs that pace, draw and reconnect themselves. */
export { CommandError, ConnectionRefused, MediaError, ReactorError, SessionEnded, UploadRefused } from "./wire/errors.ts";
export type * from "./wire/messages.ts";
export * from "./wire/packet-session.ts";
