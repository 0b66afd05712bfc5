/**
 * The same as `language.ts`, for the parts that are loaded later: the build puts it in its place there. They take what the page has loaded, so
 * that none of them waits at its top. Safari lets a second `import()` of a module that waits go on too early (WebKit's bug 242740).
 */
import { KEPT, type Kept } from "./language-keeper.ts";
import type { Texts } from "./strings.ts";

const { language, texts } = (globalThis as unknown as { readonly [KEPT]: Kept })[KEPT];
export const LANGUAGE = language;

export const inLanguage = <Table>(name: keyof Texts, english: Table): Table => (texts ? (texts[name] as Table) : english);
