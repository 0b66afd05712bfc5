/**
 * The language of the page's texts: English, or that of `languages/` which the browser asks for first. It is one file, which is loaded before the
 * page begins, and only then. Texts of the author stay the author's.
 */
import { KEPT, type Kept } from "./language-keeper.ts";
import type { Texts } from "./strings.ts";

/** The page's texts in other languages than English, by their names. */
const LANGUAGES: { readonly [name: string]: () => Promise<{ readonly default: Texts }> } = {
  de: () => import("./languages/de.ts"),
  fr: () => import("./languages/fr.ts"),
};

/** The first of these languages, as browsers name them ("de-AT"), that the page has; "en" if there is none. */
export function chooseLanguage(wanted: readonly string[]): string {
  const names = wanted.map((each) => each.toLowerCase().replace(/-.*/s, ""));
  return names.find((name) => name === "en" || Object.hasOwn(LANGUAGES, name)) ?? "en";
}

const wanted = globalThis.document ? chooseLanguage(navigator.languages) : "en";
const texts = (await LANGUAGES[wanted]?.().catch(reportError))?.default; // English texts are better than no page
export const LANGUAGE = texts ? wanted : "en";
Object.assign(globalThis, { [KEPT]: { language: LANGUAGE, texts } satisfies Kept });

/** The table of this name in the page's language; `english` is what the page has without one. */
export const inLanguage = <Table>(name: keyof Texts, english: Table): Table => (texts ? (texts[name] as Table) : english);
