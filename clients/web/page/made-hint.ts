/** A hint made of what the model declares, for a model whose author gives none for this hand. Loaded when there is one to make. */
import type { Controls } from "../src/controls.ts";
import { wholeCrosses } from "../src/controls.ts";
import type { Hand } from "./hint.ts";
import { buttonSign, keySign, pointerRows } from "./signs.ts";
import { fillIn, HINTS } from "./strings.ts";

const MOST = 4; // things that a hint names
const ARROWS = ["↑", "←", "↓", "→"];
const DIRECTIONS = ["up", "left", "down", "right"];

/** A hint made of the declared keys, buttons and gestures. */
export function makeHint(hand: Hand, { keys, pointer, look, pad }: Controls): string {
  const does = (sign: string, what: string): string => (what ? fillIn(HINTS.does, { sign, what }) : sign);
  if (hand === "gamepad") {
    const buttons = pad.buttons.map(({ button, description }) => does(buttonSign(button), description));
    return [...(pad.axes ? [does(HINTS.sticks, pad.axes.description)] : []), ...buttons].slice(0, MOST).join(HINTS.and);
  }
  const gestures = pointerRows(pointer).map(({ sign, words }) => does(sign, words));
  if (look) gestures.unshift(does(hand === "touch" ? HINTS.drag : HINTS.click, look.description || HINTS.look));
  if (hand === "touch") {
    // The other buttons say what they do; a cross has arrows alone, which need no words where they go where they point.
    const [cross = []] = wholeCrosses(keys.map(({ key }) => key));
    const moves = cross.map((name) => keys.find(({ key }) => key === name)?.description ?? "");
    const told = moves.some((what, i) => what && what.toLowerCase() !== DIRECTIONS[i]);
    const steps = told ? moves.flatMap((what, i) => (what ? [does(ARROWS[i] ?? "", what)] : [])) : [];
    return [...(steps.length || !keys.length ? steps : [HINTS.buttons]), ...gestures].slice(0, MOST + 1).join(HINTS.and);
  }
  return [...keys.map(({ key, title, description }) => does(keySign(key, title), description)), ...gestures].slice(0, MOST).join(HINTS.and);
}
