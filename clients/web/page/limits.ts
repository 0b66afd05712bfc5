/** Says in few words which limit of a field a value breaks. Loaded with the first refusal. */
import type { Field } from "../src/controls.ts";
import { fillIn, LIMITS } from "./strings.ts";

const WORDS = LIMITS;

/** "at most 20"; null if the value keeps the limits that the schema declares. */
export function brokenLimit(field: Field, value: unknown): string | null {
  if ((field.kind === "slider" || field.kind === "number") && typeof value === "number") {
    if (field.maximum !== undefined && value > field.maximum) return fillIn(WORDS.most, { limit: field.maximum });
    if (field.minimum !== undefined && value < field.minimum) return fillIn(WORDS.least, { limit: field.minimum });
    if (field.integer && !Number.isInteger(value)) return WORDS.whole;
  }
  if (field.kind === "text" && typeof value === "string" && field.maxLength !== undefined && [...value].length > field.maxLength)
    return fillIn(WORDS.longest, { limit: field.maxLength });
  return null;
}
