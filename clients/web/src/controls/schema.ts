/**
 * Sorts the commands of a model's schema by the kind of control that the page offers. Pure: knows JSON Schema, not the document.
 *
 *   setting   `set_<field>` with exactly one property: a control that follows the value
 *   key       `key_<name>` that needs no argument: the key presses it
 *   pointer   `pointer_down`, `pointer_move`, `pointer_up` of x and y: the pointer on the picture
 *   look      `pointer_look` of dx and dy: the movement of the pointer, locked to the picture
 *   pad       `gamepad_<button>` that needs no argument but `down` or `value`, and `gamepad_axes`: a gamepad
 *   action    everything else: a button, with a form if it takes arguments
 */

import type { MovementLimits } from "../input/coalesce.ts";
import type { CommandDescription, JsonSchema } from "../wire/messages.ts";

const LONG_TEXT = 80;

/** The buttons of a gamepad in the order of the standard mapping; `up` to `right` are the directional pad. */
export const PAD_BUTTONS = [
  "a",
  "b",
  "x",
  "y",
  "lb",
  "rb",
  "lt",
  "rt",
  "back",
  "start",
  "ls",
  "rs",
  "up",
  "down",
  "left",
  "right",
  "home",
] as const;

export type PadButton = (typeof PAD_BUTTONS)[number];

/** Possible arguments of `gamepad_axes`: the sticks, -1 to 1, right and down; and the triggers, 0 to 1. */
export const PAD_AXES = ["left_x", "left_y", "right_x", "right_y", "lt", "rt"] as const;

export type PadAxis = (typeof PAD_AXES)[number];

/** The commands of a pressed pointer, `pointer_<phase>`. */
const POINTER_PHASES = ["down", "move", "up"] as const;

export type PointerPhase = (typeof POINTER_PHASES)[number];

/** How a command is pressed: `PressCommand` says what each mode sends. */
export type PressMode = "plain" | "down" | "value";

/** A command's own name, and what it does; "" if the model does not say. */
export interface NamedCommand {
  readonly name: string;
  readonly description: string;
}

export interface SettingCommand extends NamedCommand {
  readonly field: Field;
}

export interface KeyCommand extends NamedCommand {
  /** The name of the key, such as "w" or "space". */
  readonly key: string;
  readonly title: string;
  /** Whether the command takes `down`: it is sent with true when the key is pressed and with false when it is released. */
  readonly held: boolean;
}

export type PointerCommands = { readonly [Phase in PointerPhase]?: NamedCommand };

export interface LookCommand extends NamedCommand {
  readonly limits: MovementLimits;
}

export interface PadButtonCommand extends NamedCommand {
  readonly button: PadButton;
  readonly mode: PressMode;
}

export interface PadAxesCommand extends NamedCommand {
  /** The arguments that the command takes. */
  readonly fields: readonly PadAxis[];
}

export interface PadCommands {
  readonly buttons: readonly PadButtonCommand[];
  readonly axes: PadAxesCommand | null;
}

export interface ActionCommand extends NamedCommand {
  readonly title: string;
  readonly fields: readonly Field[];
}

/** The commands of a model by the kind of their control. */
export interface Controls {
  readonly settings: readonly SettingCommand[];
  readonly keys: readonly KeyCommand[];
  readonly pointer: PointerCommands;
  readonly look: LookCommand | null;
  readonly pad: PadCommands;
  readonly actions: readonly ActionCommand[];
}

/** What a control of any kind has. */
interface FieldBase {
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
interface Keywords extends JsonSchema {
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
  readonly maxLength?: number;
  readonly accept?: string | readonly string[];
}

export function readCommands(commands: readonly CommandDescription[]): Controls {
  const settings: SettingCommand[] = [];
  const keys: KeyCommand[] = [];
  const pointer: { [Phase in PointerPhase]?: NamedCommand } = {};
  let look: LookCommand | null = null;
  const buttons: PadButtonCommand[] = [];
  let axes: PadAxesCommand | null = null;
  const actions: ActionCommand[] = [];
  for (const { name, description = "", schema: given = {} } of commands) {
    const schema = given as Keywords;
    const fields = readFields(schema);
    const [field] = fields;
    const key = /^key_([a-z0-9_]+)$/.exec(name)?.[1];
    const phase = POINTER_PHASES.find((each) => name === `pointer_${each}`);
    const button = PAD_BUTTONS.find((each) => name === `gamepad_${each}`);
    const mode = button ? padMode(fields) : null;
    const needed = fields.filter((field) => field.required && field.name !== "down");
    if (name.startsWith("set_") && field && fields.length === 1) {
      settings.push({ name, description, field });
    } else if (key && needed.length === 0) {
      const held = fields.some((field) => field.name === "down" && field.kind === "checkbox");
      keys.push({ name, key, title: humanize(key), description, held });
    } else if (phase && takesNumbers(fields, ["x", "y"])) {
      pointer[phase] = { name, description };
    } else if (name === "pointer_look" && takesNumbers(fields, ["dx", "dy"])) {
      look = { name, description, limits: Object.fromEntries(["dx", "dy"].map((axis) => [axis, limits(fields, axis)])) };
    } else if (name === "gamepad_axes" && takesSome(fields, PAD_AXES)) {
      axes = { name, description, fields: PAD_AXES.filter((axis) => fields.some((field) => field.name === axis)) };
    } else if (button && mode) {
      buttons.push({ name, description, button, mode });
    } else {
      actions.push({
        name,
        title: schema.title && schema.title !== name ? schema.title : humanize(name),
        description,
        fields: fields.map(withInitialValue),
      });
    }
  }
  return { settings, keys, pointer, look, pad: { buttons, axes }, actions };
}

const isNumber = (field: Field): field is NumberField | SliderField => field.kind === "number" || field.kind === "slider";

/** Whether a command accepts all these numbers and requires nothing else. */
function takesNumbers(fields: readonly Field[], names: readonly string[]): boolean {
  return names.every((name) => fields.some((field) => field.name === name)) && takesSome(fields, names);
}

/** Whether a command accepts at least one of these numbers and requires nothing else. */
function takesSome(fields: readonly Field[], names: readonly string[]): boolean {
  const known = fields.filter(({ name }) => names.includes(name));
  return known.length > 0 && known.every(isNumber) && fields.every((field) => !field.required || names.includes(field.name));
}

/** The range of one argument of a movement, extended to include 0. */
function limits(fields: readonly Field[], name: string): [least: number, most: number] {
  const { minimum = -Infinity, maximum = Infinity } = fields.filter(isNumber).find((field) => field.name === name) ?? {};
  return [Math.min(0, minimum), Math.max(0, maximum)];
}

/** How a gamepad button presses a command with these arguments; null if they are not those of a button's command. */
function padMode(fields: readonly Field[]): PressMode | null {
  const down = fields.find((field) => field.name === "down" && field.kind === "checkbox");
  const value = fields.find((field) => field.name === "value" && isNumber(field));
  if (fields.some((field) => field.required && field !== down && field !== value) || (down?.required && value?.required)) return null;
  if (value && !down?.required) return "value";
  return down ? "down" : "plain";
}

function readFields(schema: Keywords): Field[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) =>
    readField(name, property, { required: required.has(name), root: schema }),
  );
}

/**
 * One property as a control: {name, title, description, kind, nullable, initial, required} and, by kind,
 * `choices` (select), `accept` (upload), `minimum`, `maximum`, `step`, `integer` (slider, number), `maxLength`, `long` (text).
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
      return { ...field, kind: "text", maxLength: schema.maxLength, long };
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
function withInitialValue(field: Field): Field {
  if (field.kind !== "slider" || !field.required || field.initial !== undefined) return field;
  const { minimum, maximum, step } = field;
  return { ...field, initial: tidy(minimum + step * Math.round((maximum - minimum) / 2 / step)) };
}

/** `guidance_scale` as "Guidance scale". */
export function humanize(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
