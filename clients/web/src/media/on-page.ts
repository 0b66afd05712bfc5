/** Decoding and drawing outside the worker: loaded where somebody wants it. */
export { CanvasRenderer, callRenderer } from "./canvas-renderer.ts";
export { openDecoder } from "./decoders.ts";
export { TrackDecoder } from "./track-decoder.ts";
