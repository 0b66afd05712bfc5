/** A small part of Markdown as elements: paragraphs, lists, emphasis, code and links. Text becomes text, never markup. */
import { element } from "./dom.ts";

// Longer texts than these are cut by the server. Each piece ends where it began, so that no pattern looks far.
const PIECES = /\*\*([^*\n]+)\*\*|\*([^*\n]+)\*|`([^`\n]+)`|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;
const ITEM = /^\s*[-*]\s+/;

/** The paragraphs and lists of `text`. Blank lines divide them; lines that begin with "- " are items. */
export function prose(text: string): HTMLElement[] {
  return text.split(/\n\s*\n/).flatMap((block): HTMLElement[] => {
    const lines = block.split("\n").filter((line) => line.trim());
    if (lines.length === 0) return [];
    if (lines.every((line) => ITEM.test(line)))
      return [element("ul", {}, ...lines.map((line) => element("li", {}, ...inline(line.replace(ITEM, "")))))];
    return [element("p", {}, ...inline(lines.map((line) => line.trim()).join(" ")))];
  });
}

function inline(text: string): (Node | string)[] {
  const nodes: (Node | string)[] = [];
  let end = 0;
  for (const found of text.matchAll(PIECES)) {
    const [whole, strong, emphasis, code, label, url] = found;
    nodes.push(text.slice(end, found.index));
    if (strong) nodes.push(element("strong", {}, strong));
    else if (emphasis) nodes.push(element("em", {}, emphasis));
    else if (code) nodes.push(element("code", {}, code));
    else if (label && url) nodes.push(externalLink(label, url));
    end = found.index + whole.length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

/** A link to another site, which learns nothing of this page. */
export function externalLink(label: string, url: string): HTMLElement {
  return element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, label);
}
