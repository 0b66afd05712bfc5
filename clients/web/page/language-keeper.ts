/** Where the page keeps its language for the parts that are loaded later, each of which is a file of its own. */
import type { Texts } from "./strings.ts";

export const KEPT = Symbol.for("reactor-language");

/** The language's name, and its texts; none for English. */
export interface Kept {
  readonly language: string;
  readonly texts: Texts | undefined;
}
