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
import type { CommandDescription } from "../wire/messages.ts";
import { type Field, humanize, isNumber, type Keywords, readFields, withInitialValue } from "./field.ts";

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
