/** What the model says of itself: title, mark and accent colour of the page, description, author and links in the panel, thumbnail on the stage. */
import type { ModelIntroduction } from "../src/index.ts";
import { byId, element } from "./dom.ts";
import { externalLink, prose } from "./prose.ts";
import { STRINGS } from "./strings.ts";

const LONG = 90; // characters, which two lines of a phone may not hold

/** Shows the introduction of the model `name`, and its thumbnail where there is no picture yet. */
export function showIntroduction(name: string, about: ModelIntroduction | undefined): void {
  const title = about?.title || name;
  byId("name").textContent = title;
  document.title = title;
  showMark(about?.mark ?? null);
  const { style } = document.documentElement;
  for (const scheme of ["light", "dark"] as const) style.setProperty(`--accent-${scheme}`, about?.accent?.[scheme] ?? "");
  const links = (about?.links ?? []).map(({ label, url }) => externalLink(label, url));
  const by = [about?.author ? element("span", {}, about.author) : null, ...links].filter((node) => node !== null);
  showBackdrop(about?.thumbnail ?? null);
  const place = byId("about");
  place.hidden = !about?.description && by.length === 0;
  place.replaceChildren(
    ...(about?.description ? described(about.description) : []),
    ...(by.length ? [element("p", { class: "by" }, ...by)] : []),
  );
}

/** The description, of which a phone shows two lines until the user wants all. */
function described(text: string): HTMLElement[] {
  const words = element("div", { dir: "auto", class: "prose" }, ...prose(text));
  if (text.length <= LONG) return [words];
  const more = element("button", { type: "button", class: "quiet", "aria-expanded": "false" }, STRINGS.more);
  more.addEventListener("click", () => {
    const whole = words.classList.toggle("whole");
    more.setAttribute("aria-expanded", String(whole));
    more.textContent = whole ? STRINGS.less : STRINGS.more;
  });
  return [words, more];
}

function showMark(address: string | null): void {
  document.getElementById("mark")?.remove();
  if (address !== null) byId("name").before(element("img", { id: "mark", src: new URL(address, document.baseURI).href, alt: "" }));
}

/** The model's own picture, dimmed, until it has made one. */
function showBackdrop(address: string | null): void {
  document.getElementById("backdrop")?.remove();
  if (address === null) return;
  const picture = element("img", { id: "backdrop", src: new URL(address, document.baseURI).href, alt: "" });
  picture.addEventListener("error", () => picture.remove());
  // Until a track tells its shape, the stage has that of the model's own picture: then the first one moves nothing.
  picture.addEventListener("load", () => {
    const { style } = document.documentElement;
    if (!style.getPropertyValue("--ratio")) style.setProperty("--ratio", (picture.naturalWidth / picture.naturalHeight).toFixed(4));
  });
  byId("hero").append(picture);
}
