/** Translates index.html, whose texts are English. */

const SPOKEN = ["title", "aria-label", "placeholder"];

/** Replaces each text and each attribute that `words` has by its translation. The page has shown nothing of the server's yet. */
export function translate(language: string, words: { readonly [english: string]: string }): void {
  if (!globalThis.document) return; // a test
  document.documentElement.lang = language;
  const walker = document.createTreeWalker(document.body);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node instanceof Text) node.data = node.data.replace(/\S(?:.*\S)?/s, (text) => words[text] ?? text);
    else if (node instanceof Element)
      for (const name of SPOKEN) {
        const text = node.getAttribute(name);
        if (text !== null && text in words) node.setAttribute(name, words[text] ?? text);
      }
  }
}
