// The page's texts: each language has all of them, with the same places to fill in; no text is without use.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { transformSync } from "esbuild";
import { chooseLanguage } from "../page/language.ts";
import de from "../page/languages/de.ts";
import fr from "../page/languages/fr.ts";
import * as english from "../page/strings.ts";
import { fillIn, number, plural, type Texts } from "../page/strings.ts";

const PAGE = new URL("../page/", import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, PAGE), "utf8");
const { STRINGS, HTML, HANDS, LEGEND, PADS, UPLOADS, INPUTS, LIMITS, ANSWERS, SHARE, WIDGETS, API, CLIP, ENDING, FAILURE } = english;
const TABLES = { STRINGS, HANDS, LEGEND, PADS, UPLOADS, INPUTS, LIMITS, ANSWERS, SHARE, WIDGETS, API, CLIP, ENDING, FAILURE };
/** Texts that are the same in another language: names, units, and words of the wire. */
const SAME =
  /^[^A-Za-z]*$|^(\{\w+\}|[ ·:,?()–%]|ms|s|min|kHz|kB|GB|MB|fps|p50|live|Esc|Enter|Back|Start|Home|Gamepad|Sticks|Video|Token|Median|Pause|JSON|API|curl|Python|JavaScript|Actions|Messages|Volume|Source|source|Argument|Arguments|Type|Directions|total|or|null)+$/;

/** The texts of a table by their path, such as "queue.next". */
function flat(table: object, at = ""): Map<string, string> {
  return new Map(
    Object.entries(table).flatMap(([name, value]): [string, string][] =>
      typeof value === "string" ? [[at + name, value]] : [...flat(value, `${at}${name}.`)],
    ),
  );
}

const places = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();

for (const [language, texts] of Object.entries({ de, fr }) as [string, Texts][]) {
  for (const [name, table] of Object.entries(TABLES) as [keyof typeof TABLES, object][])
    test(`${language} has all texts of ${name}`, () => {
      const [here, there] = [flat(table), flat(texts[name])];
      assert.deepEqual([...there.keys()], [...here.keys()]);
      for (const [path, text] of here) {
        const translated = there.get(path) ?? "";
        if (!path.endsWith(".one")) assert.deepEqual(places(translated), places(text), path); // "one person" has no number
        assert.ok(translated !== text || SAME.test(text), `${name}.${path} is not translated: ${text}`);
      }
    });
  test(`${language} has all texts of index.html`, () => {
    assert.deepEqual(Object.keys(texts.HTML).sort(), [...new Set(Object.values(HTML))].sort());
    for (const [text, translated] of Object.entries(texts.HTML)) assert.ok(translated !== text || SAME.test(text), text);
  });
  test(`${language} has the forms of its plurals`, () => {
    const forms = new Intl.PluralRules(language).resolvedOptions().pluralCategories.filter((each) => each !== "many"); // of millions
    for (const each of [texts.STRINGS.queue.before, texts.STRINGS.missed]) assert.deepEqual(Object.keys(each).sort(), [...forms].sort());
  });
}

/** The table that is looked into by a name that is not written there, such as a reason that the server gives. */
const BY_NAME =
  /^(status|unfit|kinds|themes|quality|ends|ending|latency\.(parts|meanings)|wait|keySigns|buttonSigns|pointerSigns|padsWhen|shortcuts|problems|directions)\./;

test("each text has a use", () => {
  const modules = readdirSync(PAGE).filter((name) => name.endsWith(".ts") && name !== "strings.ts");
  // Comments and texts are no use.
  const sources = modules.map((name) => read(name).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, ""));
  const words = sources.map((source) => ({ source, has: new Set(source.match(/\w+/g)) }));
  const unused = Object.entries(TABLES).flatMap(([table, texts]) => {
    const users = words.filter(({ source }) => new RegExp(`\\b${table}\\b`).test(source));
    return [...flat(texts).keys()]
      .filter(
        (path) =>
          !users.some(({ has }) =>
            (BY_NAME.test(path) ? path.split(".").slice(0, 1) : path.split(".")).every(
              (part) => has.has(part) || /^(one|other|\d)$/.test(part),
            ),
          ),
      )
      .map((path) => `${table}.${path}`);
  });
  assert.deepEqual(unused, []);
  const html = read("index.html");
  assert.deepEqual(
    Object.keys(HTML).filter((name) => !html.includes(`{{${name}}}`)),
    [],
  );
});

test("what is loaded later does not wait at its top", () => {
  const built = new URL("../../../src/reactor_trio/page/", import.meta.url);
  const waits = (code: string): boolean => {
    try {
      transformSync(code, { format: "iife", logLevel: "silent" }); // which has no await at the top
      return false;
    } catch {
      return true;
    }
  };
  const names = readdirSync(built).filter((name) => name.endsWith(".js") && waits(readFileSync(new URL(name, built), "utf8")));
  assert.deepEqual(names, ["main.js"]);
});

test("the browser's first language that the page has", () => {
  assert.equal(chooseLanguage(["de-AT", "en"]), "de");
  assert.equal(chooseLanguage(["sv", "fr-CA", "de"]), "fr");
  assert.equal(chooseLanguage(["en-GB", "de"]), "en");
  assert.equal(chooseLanguage(["sv", "toString"]), "en");
  assert.equal(chooseLanguage([]), "en");
});

test("numbers and plurals", () => {
  assert.deepEqual(
    [number(-0), number(1234.56), number(0.25, 1), fillIn("{a} {b}", { a: 0.125, b: "1.5" })],
    ["0", "1235", "0.3", "0.125 1.5"],
  );
  assert.deepEqual(
    [1, 2].map((n) => plural(STRINGS.queue.before, n)),
    ["One person is before you.", "2 people are before you."],
  );
});
