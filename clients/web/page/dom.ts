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
  /** `error` is what was thrown: an object with a `message`, and with the `code` of a refused command. */
  show(error: unknown): void;
  hide(): void;
  /** Waits for a command's answer, and shows its refusal if it rejects. Never rejects itself. */
  follow(answer: Promise<unknown>): Promise<void>;
  /** `send`, whose refusals are shown here. */
  following(send: SendCommand): SendCommand;
}

/** A line that shows why a command was refused. It ignores the end of the connection, which the page shows elsewhere. */
export function refusalLine(): RefusalLine {
  const line = element("p", { class: "refusal", role: "alert", hidden: true });
  const self: RefusalLine = {
    element: line,
    show(error) {
      const { code, message } = error as { readonly code?: unknown; readonly message: string };
      if (code === "ended") return;
      line.textContent = message;
      line.hidden = false;
    },
    hide() {
      line.hidden = true;
      line.textContent = "";
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
