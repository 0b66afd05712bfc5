/** What stands on keys and on buttons of a gamepad, and the words for gestures of a pointer. */
import type { PointerCommands } from "../src/controls.ts";
import { keyNames } from "../src/controls.ts";
import { HANDS } from "./strings.ts";

const ARROWS = { up: "↑", down: "↓", left: "←", right: "→" };
const KEYS: { readonly [key: string]: string | undefined } = { ...ARROWS, ...HANDS.keySigns };
const BUTTONS: { readonly [button: string]: string | undefined } = { ...ARROWS, ...HANDS.buttonSigns };

/** What stands on the key with this name, such as "w" or "page_up"; `title` is the name as words. */
export const keySign = (key: string, title = key): string => KEYS[key] ?? (key.length === 1 ? capital(key) : title);

const capital = (letter: string): string => (letter === "ß" ? letter : letter.toUpperCase());

/** What is printed on the keys of a keyboard, by their places (`code` of events). */
export type PrintedKeys = ReadonlyMap<string, string>;

/** Chromium's API of the keyboard, on secure pages. */
interface KeyboardLayouts extends EventTarget {
  getLayoutMap(): Promise<PrintedKeys>;
}

/**
 * Calls `printed` with what is printed on the user's keyboard, and again after a change of its layout, until `until` aborts. Never calls it where
 * the browser does not say that.
 */
export async function followPrintedKeys(printed: (keys: PrintedKeys) => void, until: AbortSignal): Promise<void> {
  const { keyboard } = navigator as { readonly keyboard?: Partial<KeyboardLayouts> };
  const read = async (): Promise<void> => {
    const keys = await keyboard?.getLayoutMap?.().catch(() => undefined); // a frame of another site may not ask
    if (keys && !until.aborted) printed(keys);
  };
  keyboard?.addEventListener?.("layoutchange", read, { signal: until });
  await read();
}

/** What stands on the key of an event. */
export const eventSign = (event: Pick<KeyboardEvent, "key" | "code">): string => keySign(keyNames(event)[0] ?? "", event.key);

export const buttonSign = (button: string): string => BUTTONS[button] ?? button.toUpperCase();

/** The name of a button with this sign for assistive technology: voice users say what they read on it, so a word on it is in its name. */
export const labelOf = (name: string, sign: string): string =>
  sign.length === 1 || name.toLowerCase().includes(sign.toLowerCase()) ? name : `${name} – ${sign}`;

/** What hands do with a pointer on the picture: for each of these commands its name, the gesture, and what it does. */
export function pointerRows({
  down,
  move,
  up,
}: PointerCommands): { readonly name: string; readonly sign: string; readonly words: string }[] {
  const { pointerSigns: signs, hover, here } = HANDS;
  return (
    [
      [down, signs.down],
      [move, down ? signs.move : hover],
      [up, signs.up],
    ] as const
  ).flatMap(([command, sign]) => (command ? [{ name: command.name, sign, words: command.description || here }] : []));
}
