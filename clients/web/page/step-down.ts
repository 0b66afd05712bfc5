/** Tells the user that the client has taken a simpler decoder because another one failed. Loaded when that happens. */
import type { StepDown } from "../src/index.ts";
import { byId } from "./dom.ts";
import { fillIn, STEP_DOWN } from "./strings.ts";

/** Shows it below the picture; returns the line for the list of messages. */
export function showStepDown({ codec, cause, video }: StepDown): string {
  const { software, asks, or } = STEP_DOWN;
  const now = video === null ? software : fillIn(asks, { codecs: video.join(or) });
  byId("notes").hidden = false;
  byId("notes").textContent = now;
  return `${codec}: ${cause}. ${now}`;
}
