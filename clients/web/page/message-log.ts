/** The list of the model's last messages, answers and errors. Loaded with the page, without holding up its first view. */
import { byId, element } from "./dom.ts";
import { number } from "./strings.ts";

const LENGTH = 100;

let logged = 0;

/** Adds a model's message, an answer, or an error as text, to the top of the list of the last hundred. */
export function log(time: Date, type: string, content: unknown): void {
  logged += 1;
  byId("log-count").textContent = String(logged);
  const words = describe(content);
  const json = typeof content === "string" ? words : JSON.stringify(content);
  const line = element(
    "li",
    { class: type === "error" ? "error" : null },
    element("time", {}, time.toLocaleTimeString([], { hour12: false })),
    " ",
    element("b", {}, type),
    " ",
    words === json
      ? element("bdi", {}, words)
      : element("details", {}, element("summary", { dir: "auto" }, words), element("code", {}, json)),
  );
  byId("log-list").prepend(line);
  if (byId("log-list").children.length > LENGTH) byId("log-list").lastChild?.remove();
}

/** A message for people: "health 9 · food 8", or its only text. What is in lists and objects is JSON. */
export function describe(content: unknown): string {
  if (typeof content !== "object" || content === null || Array.isArray(content)) return plain(content);
  const entries = Object.entries(content).filter(([, value]) => value !== null);
  const [only] = entries;
  if (entries.length === 1 && only && typeof only[1] === "string") return only[1];
  return entries.map(([name, value]) => `${name.replaceAll("_", " ")} ${plain(value)}`).join(" · ");
}

const plain = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? number(value, 0, 3) : JSON.stringify(value);
