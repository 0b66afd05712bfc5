/** `reactor-trio/controls`: which controls a model's schema offers, and bindings of keyboard, pointer and gamepad to them. */
export type {
  CheckboxField,
  Field,
  JsonField,
  NumberField,
  SelectField,
  SliderField,
  TextField,
  UploadField,
} from "./controls/field.ts";
export { humanize, niceStep, readField } from "./controls/field.ts";
export * from "./controls/gamepad.ts";
export * from "./controls/keyboard.ts";
export * from "./controls/look.ts";
export * from "./controls/pointer.ts";
export { Press, REPEAT, type SendCommand } from "./controls/press.ts";
export * from "./controls/schema.ts";
export { Coalescer, MovementSum } from "./input/coalesce.ts";
