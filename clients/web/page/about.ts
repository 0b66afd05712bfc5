/** What the model says of itself: title, description, author and links in the panel, hint and thumbnail on the stage. */
import type { ModelIntroduction } from "../src/index.ts";
import { byId, element } from "./dom.ts";
import { externalLink, prose } from "./prose.ts";

/** Shows the introduction of the model `name` in the panel, its hint on the picture, and its thumbnail where there is no picture yet. */
export function showIntroduction(name: string, about: ModelIntroduction | undefined): void {
  const title = about?.title || name;
  byId("name").textContent = title;
  document.title = title;
  byId("hint").textContent = about?.hint ?? "";
  const links = (about?.links ?? []).map(({ label, url }) => externalLink(label, url));
  const by = [about?.author ? element("span", {}, about.author) : null, ...links].filter((node) => node !== null);
  showBackdrop(about?.thumbnail ?? null);
  const place = byId("about");
  place.hidden = !about?.title && !about?.description && by.length === 0;
  place.replaceChildren(
    element("p", { class: "title" }, title),
    ...(about?.description ? [element("div", { class: "prose" }, ...prose(about.description))] : []),
    ...(by.length ? [element("p", { class: "by" }, ...by)] : []),
  );
}

/** The model's own picture, dimmed, until it has made one. */
function showBackdrop(address: string | null): void {
  document.getElementById("backdrop")?.remove();
  if (address === null) return;
  const picture = element("img", { id: "backdrop", src: new URL(address, document.baseURI).href, alt: "" });
  picture.addEventListener("error", () => picture.remove());
  byId("hero").append(picture);
}
