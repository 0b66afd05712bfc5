/**
 * The client in one file, for pages without a bundler: `standalone.js` of the package, and `/page/client.js` of a server.
 *
 * It has all of `reactor-trio`, and the parts that pages of their own make are made of. The low-level `connect` of
 * `reactor-trio/wire`, which returns a `Session`, is called `connectSession` here.
 */

export { Latency, PARTS as LATENCY_PARTS } from "./figures/latency.ts";
export * from "./index.ts";
export { Freezes } from "./media/freezes.ts";
export { Picture, releaseCanvas, startWorker } from "./media/picture.ts";
export { PlayoutDelay } from "./media/playout-delay.ts";
export { comeBack } from "./session/comeback.ts";
export { AudioClock } from "./sound/audio-clock.ts";
export { AudioJitterBuffer } from "./sound/audio-jitter-buffer.ts";
export {
  connect as connectSession,
  decodeMessagePack,
  decodePacket,
  encodeMessagePack,
  encodePacket,
  KEYFRAME,
  openSocket,
  pageOf,
  Session,
  SUBPROTOCOL,
} from "./wire/packet-session.ts";
