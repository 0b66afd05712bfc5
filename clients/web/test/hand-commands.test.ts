// Which commands a hand reaches: the cases of tests/kinds/hand-commands.json, by which a server warns its author, hold for the page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { keyNames } from "../src/controls/keyboard.ts";
import { readCommands } from "../src/controls/schema.ts";
import type { CommandDescription } from "../src/wire/messages.ts";

interface Case extends CommandDescription {
  readonly reached: boolean;
}

const CASES = JSON.parse(readFileSync(new URL("../../../tests/kinds/hand-commands.json", import.meta.url), "utf8")) as Case[];
/** Keys by what events say of them. */
const KEYS = ["w", "1", "5", " ", "ArrowLeft", "ArrowUp", "ArrowRight", "PageUp", "Escape", "F5", "Shift"];
const named = new Set([...KEYS.flatMap((key) => keyNames({ key, code: "" })), ...keyNames({ key: "+", code: "NumpadAdd" })]);

for (const { reached, ...command } of CASES)
  test(`${command.name} of ${Object.keys(command.schema?.properties ?? {})} is ${reached ? "" : "not "}reached`, () => {
    const { keys, pointer, look, pad, actions } = readCommands([command]);
    const hasDown = Object.keys(command.schema?.properties ?? {}).includes("down");
    const hands = [...Object.values(pointer), look, ...pad.buttons, pad.axes].filter((each) => each);
    // A key that takes `down`, whatever its type, is sent a boolean.
    const pressed = keys.filter(({ key, held }) => named.has(key) && (held || !hasDown));
    const plain = !/^(key|pointer|gamepad)_/.test(command.name);
    assert.equal(pressed.length + hands.length + (plain ? actions.length : 0), reached ? 1 : 0);
  });
