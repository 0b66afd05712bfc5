/** One property of a command as a control: reads its JSON Schema. Pure, as `schema.ts`, which sorts the commands. */
import type { JsonSchema } from "../wire/messages.ts";

const LONG_TEXT = 80;

/** What a control of any kind has. */
export interface FieldBase {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly nullable: boolean;
  readonly required: boolean;
  /** The schema's default; undefined if it has none. */
  readonly initial: unknown;
}

export interface SliderField extends FieldBase {
  readonly kind: "slider";
  readonly integer: boolean;
  readonly minimum: number;
  readonly maximum: number;
  readonly step: number;
}

export interface NumberField extends FieldBase {
  readonly kind: "number";
  readonly integer: boolean;
  readonly minimum: number | undefined;
  readonly maximum: number | undefined;
  readonly step: number | undefined;
}

export interface TextField extends FieldBase {
  readonly kind: "text";
  readonly minLength: number | undefined;
  readonly maxLength: number | undefined;
  /** Whether it may need several lines. */
  readonly long: boolean;
}

export interface SelectField extends FieldBase {
  readonly kind: "select";
  /** Any JSON values. */
  readonly choices: readonly unknown[];
}

export interface CheckboxField extends FieldBase {
  readonly kind: "checkbox";
}

export interface UploadField extends FieldBase {
  readonly kind: "upload";
  /** The accepted types as an `<input type="file">` has them; undefined for all. */
  readonly accept: string | undefined;
}

export interface JsonField extends FieldBase {
  readonly kind: "json";
}

/** One property of a command as a control. */
export type Field = SliderField | NumberField | TextField | SelectField | CheckboxField | UploadField | JsonField;

/** The keywords that this module reads. */
export interface Keywords extends JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[] | undefined;
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: { readonly [name: string]: JsonSchema | boolean };
  readonly required?: readonly string[];
  readonly anyOf?: readonly (Keywords | boolean)[];
  readonly oneOf?: readonly (Keywords | boolean)[];
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly accept?: string | readonly string[];
}

/** Whether the field holds a number, with or without a slider. */
export const isNumber = (field: Field): field is NumberField | SliderField => field.kind === "number" || field.kind === "slider";

/** The properties of a command, as controls. */
export function readFields(schema: Keywords): Field[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) =>
    readField(name, property, { required: required.has(name), root: schema }),
  );
}

/**
 * One property as a control: {name, title, description, kind, nullable, initial, required} and, by kind,
 * `choices` (select), `accept` (upload), `minimum`, `maximum`, `step`, `integer` (slider, number), `minLength`, `maxLength`, `long` (text).
 * `initial` is undefined if the schema has no default. `root` is the schema that the property's references refer to.
 */
export function readField(
  name: string,
  property: JsonSchema | boolean,
  { required = false, root = {} }: { required?: boolean; root?: JsonSchema } = {},
): Field {
  const outer = resolve(property as Keywords | boolean, root);
  const { schema, nullable } = withoutNull(outer, root);
  const words = { ...schema, ...outer };
  const field = {
    name,
    title: words.title ?? humanize(name),
    description: words.description ?? "",
    nullable,
    required,
    initial: words.default,
  };
  if (schema["x-reactor"] === "upload") {
    // The server lists MIME types; a file input needs them comma-separated.
    return { ...field, kind: "upload", accept: words.accept && [words.accept].flat().join(",") };
  }
  const choices = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (choices) return { ...field, kind: "select", choices };
  switch (schema.type) {
    case "boolean":
      return { ...field, kind: "checkbox" };
    case "integer":
    case "number":
      return { ...field, ...readRange(schema) };
    case "string": {
      const initial = typeof field.initial === "string" ? field.initial : "";
      const long = (schema.maxLength ?? Infinity) > LONG_TEXT || initial.length > LONG_TEXT || initial.includes("\n");
      return { ...field, kind: "text", minLength: schema.minLength, maxLength: schema.maxLength, long };
    }
    default:
      return { ...field, kind: "json" };
  }
}

function readRange(schema: Keywords): Omit<NumberField, keyof FieldBase> | Omit<SliderField, keyof FieldBase> {
  const integer = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  if (low === undefined || high === undefined || !(high > low)) {
    return { kind: "number", integer, minimum: schema.minimum, maximum: schema.maximum, step: schema.multipleOf };
  }
  const step = schema.multipleOf ?? (integer ? 1 : niceStep(high - low));
  // A slider has no exclusive limits; the nearest valid value is one step inside.
  const minimum = schema.minimum ?? tidy(low + step);
  const maximum = schema.maximum ?? tidy(high - step);
  return { kind: "slider", integer, minimum, maximum, step };
}

/** A step of 1, 2 or 5 times a power of ten, for about 200 steps over `span`, so that the values are easy to read. */
export function niceStep(span: number): number {
  const rough = span / 200;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough * (1 - 1e-9)) ?? 10;
  return tidy(factor * power);
}

const tidy = (number: number): number => Number(number.toPrecision(12));

function withoutNull(schema: Keywords, root: JsonSchema): { schema: Keywords; nullable: boolean } {
  const branches = (schema.anyOf ?? schema.oneOf)?.map((branch) => resolve(branch, root));
  if (branches) {
    const rest = branches.filter((branch) => branch.type !== "null");
    const nullable = rest.length < branches.length;
    return { schema: (rest.length === 1 && rest[0]) || {}, nullable };
  }
  if (schema.enum?.includes(null)) {
    return { schema: { ...schema, enum: schema.enum.filter((choice) => choice !== null) }, nullable: true };
  }
  if (Array.isArray(schema.type)) {
    const rest = schema.type.filter((type) => type !== "null");
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : undefined }, nullable: rest.length < schema.type.length };
  }
  return { schema, nullable: false };
}

/** Follows a local `$ref`. Keys next to the `$ref`, for instance a default, override those of its target. A schema may be a boolean. */
function resolve(schema: Keywords | boolean | undefined, root: JsonSchema): Keywords {
  if (typeof schema !== "object" || schema === null) return {};
  if (typeof schema.$ref !== "string" || !schema.$ref.startsWith("#/")) return schema;
  const { $ref, ...beside } = schema;
  const target = $ref
    .slice(2)
    .split("/")
    .reduce<JsonSchema | undefined>((place, step) => place?.[step] as JsonSchema | undefined, root);
  return { ...target, ...beside };
}

/** A slider always shows a value. For a required argument without a default, the middle becomes its initial value. */
export function withInitialValue(field: Field): Field {
  if (field.kind !== "slider" || !field.required || field.initial !== undefined) return field;
  const { minimum, maximum, step } = field;
  return { ...field, initial: tidy(minimum + step * Math.round((maximum - minimum) / 2 / step)) };
}

/** `guidance_scale` as "Guidance scale". */
export function humanize(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
