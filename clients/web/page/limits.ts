/** Says in words for people which limit of a field a value breaks. Loaded with the first text, or the first refusal. */
import type { Field } from "../src/controls.ts";
import { fillIn, LIMITS, plural } from "./strings.ts";

/** How many characters a text has, as the server counts them. */
export const lengthOf = (text: string): number => [...text].length;

/** "Choose at most 20."; null if the value keeps the limits that the schema declares. */
export function brokenLimit(field: Field, value: unknown): string | null {
  if ((field.kind === "slider" || field.kind === "number") && typeof value === "number") {
    if (field.maximum !== undefined && value > field.maximum) return fillIn(LIMITS.most, { limit: field.maximum });
    if (field.minimum !== undefined && value < field.minimum) return fillIn(LIMITS.least, { limit: field.minimum });
    if (field.integer && !Number.isInteger(value)) return LIMITS.whole;
  }
  if (field.kind === "text" && typeof value === "string") {
    const length = lengthOf(value);
    if (length < (field.minLength ?? 0)) return plural(LIMITS.shortest, field.minLength ?? 0);
    if (length > (field.maxLength ?? Infinity)) return plural(LIMITS.longest, field.maxLength ?? 0);
  }
  return null;
}

/** How the server's messages begin that are for programmers. */
const ofType = /^Expected `/;

/** Words for a refusal of `value` with this message; null: the message is the model's own, for people. */
export const refusedWords = (field: Field, value: unknown, message: string): string | null =>
  brokenLimit(field, value) ?? (ofType.test(message) ? LIMITS.other : null);

/** The same for the form of an action; the first argument that breaks a limit is named. */
export function refusedForm(fields: readonly Field[], values: { readonly [name: string]: unknown }, message: string): string | null {
  for (const field of fields) {
    const broken = brokenLimit(field, values[field.name]);
    if (broken !== null) return `${field.title}: ${broken}`;
  }
  return ofType.test(message) ? LIMITS.other : null;
}
