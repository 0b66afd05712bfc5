/**
 * The whole wire protocol, version 1, for browsers and Node: sessions, and their packets.
 *
 *     import { connect } from "./page/protocol.js";
 *     const session = connect({ url: "ws://127.0.0.1:8080/ws" });
 *     session.addEventListener("frame", ({ detail }) => show(detail.track, detail.payload));
 *     session.addEventListener("welcome", () => session.command("set_brightness", { brightness: 0.5 }));
 */
import { decodePacket } from "./packet.ts";
import { encodePacket, type OutgoingPacket } from "./packet-encoder.ts";
import { connect as connectSession, Session, type SessionOptions } from "./protocol.ts";

export { CommandError } from "./errors.ts";
export { decodeMessagePack, decodePacket } from "./packet.ts";
export { encodeMessagePack, encodePacket, KEYFRAME, type OutgoingPacket } from "./packet-encoder.ts";
export type * from "./protocol.ts";
export { openSocket, pageOf, SUBPROTOCOL } from "./protocol.ts";
export { PacketSession as Session };

class PacketSession extends Session {
  override decode: Session["decode"] = decodePacket;

  /**
   * Sends a packet of an input track; returns whether the connection accepted it. `track` is the track's index, `seq` counts its
   * frames from 0, including frames that were not sent, and `ptsUs` is the capture time in microseconds since this client's
   * first packet.
   */
  push(packet: OutgoingPacket): boolean {
    return this.send(encodePacket(packet));
  }
}

/** Opens a session and returns it at once; the options are those of `SessionOptions`. */
export function connect(options: SessionOptions): PacketSession {
  return connectSession(options, PacketSession);
}
