/** Words for a client that has taken a simpler decoder because another one failed: for developers. Loaded when that happens. */
import type { StepDown } from "../src/index.ts";
import { fillIn, STEP_DOWN } from "./strings.ts";

/** The line for the list of messages. */
export function describe({ codec, cause, video }: StepDown): string {
  const { software, asks, or } = STEP_DOWN;
  return `${codec}: ${cause}. ${video === null ? software : fillIn(asks, { codecs: video.join(or) })}`;
}
