/** What the model says of itself: title, description, author and links. */
import type { ModelIntroduction } from "../src/index.ts";
import { byId, element } from "./dom.ts";
import { externalLink, prose } from "./prose.ts";

/** Shows the introduction of the model `name` in the panel, and its hint on the picture. */
export function showIntroduction(name: string, about: ModelIntroduction | undefined): void {
  const title = about?.title || name;
  byId("name").textContent = title;
  document.title = title;
  byId("hint").textContent = about?.hint ?? "";
  const links = (about?.links ?? []).map(({ label, url }) => externalLink(label, url));
  const by = [about?.author ? element("span", {}, about.author) : null, ...links].filter((node) => node !== null);
  const place = byId("about");
  place.hidden = !about?.title && !about?.description && by.length === 0;
  place.replaceChildren(
    element("p", { class: "title" }, title),
    ...(about?.description ? [element("div", { class: "prose" }, ...prose(about.description))] : []),
    ...(by.length ? [element("p", { class: "by" }, ...by)] : []),
  );
}
