/** All bindings of a page to the commands of one session. */
import type { ModelSchema } from "../wire/messages.ts";
import { GamepadBinding } from "./gamepad.ts";
import { KeyboardBinding } from "./keyboard.ts";
import { LookBinding } from "./look.ts";
import { PointerBinding } from "./pointer.ts";
import { Press, type SendCommand } from "./press.ts";
import { readCommands } from "./schema.ts";

/** Which of them are wanted. */
export type ControlKind = "keyboard" | "pointer" | "gamepad" | "all" | "none";

/** What is bound to the commands of a session. */
export interface Bindings {
  /** Releases what is held, and tells the model. */
  release(): void;
  /** Ends the bindings without sending. */
  close(): void;
}

/** Binds the keyboard of the window, the pointer on `canvas`, and the gamepad, until `close`. */
export function bindCommands(
  schema: Pick<ModelSchema, "commands">,
  send: SendCommand,
  canvas: HTMLCanvasElement,
  kind: ControlKind,
): Bindings {
  const wanted = (one: ControlKind): boolean => kind === one || kind === "all";
  const { keys, pointer, look, pad } = readCommands(schema.commands);
  const bound: (Partial<Bindings> & Pick<Bindings, "close">)[] = [];
  if (wanted("keyboard")) {
    const press = ({ name, held }: (typeof keys)[number]): Press => new Press({ name, mode: held ? "down" : "plain" }, send);
    bound.push(new KeyboardBinding(new Map(keys.map((command) => [command.key, press(command)]))));
  }
  if (wanted("pointer")) {
    bound.push(new PointerBinding(pointer, send, canvas));
    bound.push(new LookBinding(look, send, canvas, { locked: () => {}, refused: () => {} }));
  }
  if (wanted("gamepad")) {
    const presses = pad.buttons.map(({ name, button, mode }) => ({ button, mode, press: new Press({ name, mode }, send) }));
    bound.push(new GamepadBinding(presses, pad.axes, send));
  }
  return {
    release: () => {
      for (const binding of bound) binding.release?.();
    },
    close: () => {
      for (const binding of bound) binding.close();
    },
  };
}
