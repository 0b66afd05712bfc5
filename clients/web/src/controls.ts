/** `reactor-trio/controls`: which controls a model's schema offers, and bindings of keyboard, pointer and gamepad to them. */
export * from "./controls/gamepad.ts";
export * from "./controls/keyboard.ts";
export * from "./controls/look.ts";
export * from "./controls/pointer.ts";
export { Press, REPEAT, type SendCommand } from "./controls/press.ts";
export * from "./controls/schema.ts";
export { Coalescer, MovementSum } from "./input/coalesce.ts";
