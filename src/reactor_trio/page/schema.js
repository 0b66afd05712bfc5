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

const LONG_TEXT = 80;

/** The buttons of a gamepad in the order of the standard mapping; `up` to `right` are the directional pad. */
export const PAD_BUTTONS = ["a", "b", "x", "y", "lb", "rb", "lt", "rt", "back", "start", "ls", "rs", "up", "down", "left", "right", "home"];

/** Possible arguments of `gamepad_axes`: the sticks, -1 to 1, right and down; and the triggers, 0 to 1. */
export const PAD_AXES = ["left_x", "left_y", "right_x", "right_y", "lt", "rt"];

export function readCommands(commands) {
  const settings = [];
  const keys = [];
  const pointer = {};
  let look = null;
  const pad = { buttons: [], axes: null };
  const actions = [];
  for (const { name, description = "", schema = {} } of commands) {
    const fields = readFields(schema);
    const key = /^key_([a-z0-9_]+)$/.exec(name);
    const place = /^pointer_(down|move|up)$/.exec(name);
    const needed = fields.filter((field) => field.required && field.name !== "down");
    if (name.startsWith("set_") && fields.length === 1) {
      settings.push({ name, description, field: fields[0] });
    } else if (key && needed.length === 0) {
      const held = fields.some((field) => field.name === "down" && field.kind === "checkbox");
      keys.push({ name, key: key[1], title: humanize(key[1]), description, held });
    } else if (place && takesNumbers(fields, ["x", "y"])) {
      pointer[place[1]] = { name, description };
    } else if (name === "pointer_look" && takesNumbers(fields, ["dx", "dy"])) {
      look = { name, description, limits: Object.fromEntries(["dx", "dy"].map((axis) => [axis, limits(fields, axis)])) };
    } else if (name === "gamepad_axes" && takesSome(fields, PAD_AXES)) {
      pad.axes = { name, description, fields: PAD_AXES.filter((axis) => fields.some((field) => field.name === axis)) };
    } else if (padMode(name, fields)) {
      pad.buttons.push({ name, description, button: name.slice(8), mode: padMode(name, fields) });
    } else {
      actions.push({ name, title: schema.title && schema.title !== name ? schema.title : humanize(name), description, fields: fields.map(withInitialValue) });
    }
  }
  return { settings, keys, pointer, look, pad, actions };
}

const isNumber = ({ kind }) => kind === "number" || kind === "slider";

/** Whether a command accepts all these numbers and requires nothing else. */
function takesNumbers(fields, names) {
  return names.every((name) => fields.some((field) => field.name === name)) && takesSome(fields, names);
}

/** Whether a command accepts at least one of these numbers and requires nothing else. */
function takesSome(fields, names) {
  const known = fields.filter(({ name }) => names.includes(name));
  return known.length > 0 && known.every(isNumber) && fields.every((field) => !field.required || known.includes(field));
}

/** The range of one argument of a movement, extended to include 0. */
function limits(fields, name) {
  const { minimum = -Infinity, maximum = Infinity } = fields.find((field) => field.name === name);
  return [Math.min(0, minimum), Math.max(0, maximum)];
}

/** How a gamepad button presses this command: "plain", "down" or "value"; null if it is not a button's command. */
function padMode(name, fields) {
  if (!name.startsWith("gamepad_") || !PAD_BUTTONS.includes(name.slice(8))) return null;
  const down = fields.find((field) => field.name === "down" && field.kind === "checkbox");
  const value = fields.find((field) => field.name === "value" && isNumber(field));
  if (fields.some((field) => field.required && field !== down && field !== value) || (down?.required && value?.required)) return null;
  if (value && !down?.required) return "value";
  return down ? "down" : "plain";
}

function readFields(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) =>
    readField(name, property, { required: required.has(name), root: schema }),
  );
}

/**
 * One property as a control: {name, title, description, kind, nullable, initial, required} and, by kind,
 * `choices` (select), `accept` (upload), `minimum`, `maximum`, `step`, `integer` (slider, number), `maxLength`, `long` (text).
 * `initial` is undefined if the schema has no default.
 */
export function readField(name, property, { required = false, root = {} } = {}) {
  const outer = resolve(property, root);
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

function readRange(schema) {
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
export function niceStep(span) {
  const rough = span / 200;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough * (1 - 1e-9)) ?? 10;
  return tidy(factor * power);
}

const tidy = (number) => Number(number.toPrecision(12));

function withoutNull(schema, root) {
  const branches = (schema.anyOf ?? schema.oneOf)?.map((branch) => resolve(branch, root));
  if (branches) {
    const rest = branches.filter((branch) => branch.type !== "null");
    const nullable = rest.length < branches.length;
    return { schema: rest.length === 1 ? rest[0] : {}, nullable };
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

/** Follows a local `$ref`. Keys next to the `$ref`, for instance a default, override those of its target. */
function resolve(schema, root) {
  if (typeof schema?.$ref !== "string" || !schema.$ref.startsWith("#/")) return schema ?? {};
  const { $ref, ...beside } = schema;
  const target = $ref.slice(2).split("/").reduce((place, step) => place?.[step], root);
  return { ...target, ...beside };
}

/** A slider always shows a value. For a required argument without a default, the middle becomes its initial value. */
function withInitialValue(field) {
  const { kind, required, initial, minimum, maximum, step } = field;
  if (kind !== "slider" || !required || initial !== undefined) return field;
  return { ...field, initial: tidy(minimum + step * Math.round((maximum - minimum) / 2 / step)) };
}

/** `guidance_scale` as "Guidance scale". */
export function humanize(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
