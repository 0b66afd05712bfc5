/** The list of the model's last messages, replies and errors. */
import { byId, element } from "./dom.ts";

const LENGTH = 100;

let logged = 0;

/** Adds a model message, a reply or an error to the top of the list of the last hundred. */
export function log(type: string, text: string): void {
  logged += 1;
  byId("log-count").textContent = String(logged);
  const time = new Date().toLocaleTimeString([], { hour12: false });
  const line = element(
    "li",
    { class: type === "error" ? "error" : null },
    element("time", {}, time),
    " ",
    element("b", {}, type),
    ` ${text}`,
  );
  byId("log-list").prepend(line);
  if (byId("log-list").children.length > LENGTH) byId("log-list").lastChild?.remove();
}
