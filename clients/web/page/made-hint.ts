/** A hint made of what the model declares, for a model whose author gives none for this hand. Loaded when there is one to make. */
import type { Controls } from "../src/controls.ts";
import { wholeCrosses } from "../src/controls.ts";
import { element } from "./dom.ts";
import type { Hand } from "./hint.ts";
import { buttonSign, keySign, pointerRows } from "./signs.ts";
import { fillIn, HINTS } from "./strings.ts";

const MOST = 4; // things that a hint names
const ARROWS = ["↑", "←", "↓", "→"];
const DIRECTIONS = ["up", "left", "down", "right"];

/** Something to do: the key, the button or the gesture, and what that does, which may be said nowhere. */
export interface Deed {
  readonly sign: string;
  readonly what: string;
}

/** A hint made of the declared keys, buttons and gestures; null if there are none. */
export function showHint(hand: Hand, controls: Controls): HTMLElement | null {
  const words = HINTS.does.replace("{sign}", "");
  const parts = makeHint(hand, controls).map((part) => {
    if (typeof part === "string") return [part];
    const { sign, what } = part;
    return [element("kbd", {}, sign), what && fillIn(words, { what })];
  });
  return parts.length ? element("span", {}, ...parts.flatMap((part, i) => (i ? [HINTS.and, ...part] : part))) : null;
}

/** What the hint names, in its order. */
export function makeHint(hand: Hand, { keys, pointer, look, pad }: Controls): (Deed | string)[] {
  if (hand === "gamepad") {
    const buttons = pad.buttons.map(({ button, description }) => ({ sign: buttonSign(button), what: description }));
    return [...(pad.axes ? [{ sign: HINTS.sticks, what: pad.axes.description }] : []), ...buttons].slice(0, MOST);
  }
  const gestures: Deed[] = pointerRows(pointer).map(({ sign, words }) => ({ sign, what: words }));
  if (look) gestures.unshift({ sign: hand === "touch" ? HINTS.drag : HINTS.click, what: look.description || HINTS.look });
  if (hand === "touch") {
    // The other buttons say what they do; a cross has arrows alone, which need no words where they go where they point.
    const [cross = []] = wholeCrosses(keys.map(({ key }) => key));
    const moves = cross.map((name) => keys.find(({ key }) => key === name)?.description ?? "");
    const told = moves.some((what, i) => what && what.toLowerCase() !== DIRECTIONS[i]);
    const steps = told ? moves.flatMap((what, i) => (what ? [{ sign: ARROWS[i] ?? "", what }] : [])) : [];
    return [...(steps.length || !keys.length ? steps : [HINTS.buttons]), ...gestures].slice(0, MOST + 1);
  }
  const pressed = keys.map(({ key, title, description }) => ({ sign: keySign(key, title), what: description }));
  return [...pressed, ...gestures].slice(0, MOST);
}
