/** Elements that every part of the page uses. */
import type { SendCommand } from "../src/controls.ts";

/** Attributes by name. True is an attribute without a value; false, null and undefined leave the attribute out. */
export type Attributes = { readonly [name: string]: string | number | boolean | null | undefined };

/** Creates an element. The page uses no other way, so text becomes text, never markup. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly (Node | string | null)[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const sheets = new Map<string, Promise<void>>();

/** Loads a style sheet beside this file; its rules apply when the promise is fulfilled. A missing sheet is no reason to show nothing. */
export function loadStyle(name: string): Promise<void> {
  const loaded =
    sheets.get(name) ??
    new Promise<void>((resolve) => {
      const link = element("link", { rel: "stylesheet", href: new URL(name, import.meta.url).href });
      link.onload = () => resolve();
      link.onerror = () => {
        sheets.delete(name); // the next one who needs it asks again
        resolve();
      };
      document.head.append(link);
    });
  sheets.set(name, loaded);
  return loaded;
}

/** An arrow that goes round, for `icon`: back to the beginning. */
export const BACK_TO_BEGIN = ["M3.5 8a4.5 4.5 0 1 0 1.6-3.4M5 1.8v3h3"];

/** Corners that point outwards, for `icon`. */
export const ENLARGE = "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4";

/** A drawing of lines, 16 by 16; screen readers skip it. `filled` is the first line's inside. */
export function icon(lines: readonly string[], { filled = false }: { readonly filled?: boolean } = {}): SVGSVGElement {
  const drawing = vector("svg", { class: "line", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" });
  lines.forEach((d, i) => {
    const path = drawing.appendChild(vector("path", { d }));
    if (filled && i === 0) path.style.fill = "currentColor";
  });
  return drawing;
}

/** Creates an element of a drawing. */
export function vector<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: { readonly [name: string]: string | number },
): SVGElementTagNameMap[Tag] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return node;
}

/** Shows `nodes` in the list of a part of the page, and no part without any. */
export function fill(part: string, nodes: readonly (HTMLElement | null)[]): void {
  const section = byId(part);
  section.hidden = nodes.length === 0;
  within(section, ".list").replaceChildren(...nodes.filter((node) => node !== null));
}

/** Writes a text where it is another one: the browser lays a page out again even for the same text. */
export function write(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** The element of index.html with this id; throws if there is none, or if it is of another class than `kind`. */
export function byId(id: string): HTMLElement;
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind;
export function byId(id: string, kind: new () => HTMLElement = HTMLElement): HTMLElement {
  return known(document.getElementById(id), kind, `#${id}`);
}

/** The first element in `place` that `selector` selects; throws if there is none, or if it is of another class than `kind`. */
export function within(place: ParentNode, selector: string): HTMLElement;
export function within<Kind extends Element>(place: ParentNode, selector: string, kind: new () => Kind): Kind;
export function within(place: ParentNode, selector: string, kind: new () => Element = HTMLElement): Element {
  return known(place.querySelector(selector), kind, selector);
}

function known<Kind extends Element>(found: Element | null, kind: new () => Kind, selector: string): Kind {
  if (found instanceof kind) return found;
  throw new TypeError(`The page needs a ${kind.name} at ${selector}, and has ${found ? `a ${found.constructor.name}` : "none"}.`);
}

/** The line of `refusalLine`. */
export interface RefusalLine {
  readonly element: HTMLElement;
  /**
   * `error` is what was thrown: an object with a `message`, and with the `code` of a refused command. With `words` for people, its
   * message is shown on demand.
   */
  show(error: unknown, words?: string | null): void;
  hide(): void;
  /** Waits for a command's answer, and shows its refusal if it rejects. Never rejects itself. */
  follow(answer: Promise<unknown>): Promise<void>;
  /** `send`, whose refusals are shown here. */
  following(send: SendCommand): SendCommand;
}

/** A line that shows why a command was refused; `wordsOf` has words for people for some codes. It ignores the end of the connection, which the page shows elsewhere. */
export function refusalLine(wordsOf: (code: unknown) => string | null = () => null): RefusalLine {
  const line = element("div", { dir: "auto", class: "refusal", role: "alert", hidden: true });
  const self: RefusalLine = {
    element: line,
    show(error, given = null) {
      const { name, code, message } = error as { readonly name?: unknown; readonly code?: unknown; readonly message: string };
      const words = given ?? wordsOf(code);
      if (code === "ended" && name !== "MediaError") return; // a device that has ended is shown
      // The path of an argument says nothing to people, who see its field.
      line.replaceChildren(
        words === null
          ? message.replace(/ - at `?\$\S*$/, "")
          : element("details", {}, element("summary", {}, words), element("code", {}, message)),
      );
      line.hidden = false;
    },
    hide() {
      line.hidden = true;
      line.replaceChildren();
    },
    async follow(answer) {
      try {
        await answer;
        self.hide();
      } catch (error) {
        self.show(error);
      }
    },
    following: (send) => (name, data) => self.follow(send(name, data)),
  };
  return self;
}
