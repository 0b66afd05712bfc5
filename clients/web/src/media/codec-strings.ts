/** The configurations of WebCodecs that are asked about, best first, and assumed for a track that names none. */
export const CODEC_STRINGS = { h264: "avc1.42E01F", vp8: "vp8", vp9: "vp09.00.10.08", av1: "av01.0.04M.08" } as const;
/** The name of the error with which a browser takes back a decoder or an encoder: one that is idle, or of a hidden page. */
export const RECLAIMED = "QuotaExceededError";
