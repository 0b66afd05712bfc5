import type { Codec } from "../src/index.ts";

const ALL: readonly (Codec | "none")[] = ["h264", "vp8", "vp9", "av1", "lossless", "jpeg", "raw", "none"];

/** The codecs in the list `names` ("h264,jpeg") that a page may request. */
export function parseCodecs(names: string | null): (Codec | "none")[] {
  return (names ?? "").split(",").flatMap((name) => ALL.filter((codec) => codec === name));
}
