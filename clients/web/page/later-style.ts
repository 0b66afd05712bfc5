/** The style of what is loaded later. */
import { element } from "./dom.ts";

const ID = "later-style";

/** Loads the style once; the parts that need it call this. */
export function loadLaterStyle(): void {
  if (document.getElementById(ID)) return;
  document.head.append(element("link", { id: ID, rel: "stylesheet", href: new URL("./later.css", import.meta.url).href }));
}
