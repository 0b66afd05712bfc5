/** What hands hold now, told again when the world has become another one: the model may hold a key that nobody presses any more. */
import type { CommandDescription, JsonSchema, Welcome } from "../wire/messages.ts";
import type { Session } from "../wire/protocol.ts";
import type { Arguments } from "./commands.ts";

/** Sends what hands hold now, unless this client watches. `sent` is what it sent last of each command that is held and released. */
export function sendAgain(session: Session, sent: ReadonlyMap<string, Arguments>): void {
  const { role, schema } = session.welcome as Welcome;
  if (role === "viewer") return;
  for (const [name, args] of handsNow(schema.commands, sent)) session.command(name, args).catch(() => {}); // as who presses
}

/**
 * Every press-and-release command (with `down`), button and axis of a gamepad, as it is now, releases first. What was never sent is
 * released.
 */
export function handsNow(commands: readonly CommandDescription[], sent: ReadonlyMap<string, Arguments>): [string, Arguments][] {
  const now = commands.flatMap(({ name, schema = {} }): [string, Arguments][] => {
    const args = sent.get(name) ?? atRest(name, schema);
    return args ? [[name, args]] : [];
  });
  return now.sort(([, one], [, other]) => Number(isHeld(one)) - Number(isHeld(other)));
}

/** The arguments that release a command; null if nothing holds it, or if it cannot be released without more. */
function atRest(name: string, { properties = {}, required = [] }: JsonSchema): Arguments | null {
  const all = Object.entries(properties as { readonly [name: string]: JsonSchema });
  const type = (wanted: RegExp) => all.filter(([, each]) => wanted.test(String(each.type))).map(([argument]) => argument);
  const down = type(/^boolean$/).includes("down");
  const rest = down ? { down: false } : Object.fromEntries(type(/^(number|integer)$/).map((argument) => [argument, 0]));
  const released = down || (/^gamepad_/.test(name) && all.length > 0);
  return released && (required as readonly string[]).every((argument) => argument in rest) ? rest : null;
}

const isHeld = (args: Arguments): boolean => Boolean(args.down ?? Object.values(args).some(Boolean));
