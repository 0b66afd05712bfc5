// Every text that the page shows is in page/strings.ts.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { transformSync } from "esbuild";

const PAGE = new URL("../page/", import.meta.url);
/** A string, or a comment or a regular expression, which may contain quotes. */
const LITERAL =
  /\/\*[\s\S]*?\*\/|\/\/.*|"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|(?<=[(,=:?&|!] ?)\/(?! )(?:\[(?:[^\]\\\n]|\\.)*\]|[^/\\\n[]|\\.)+\//g;
/** Two words, or one beside what is put in, or one that begins as a sentence does. Words of one small letter are drawings. */
const TEXT = /[A-Za-z]{2,}[.,:;!?]? |[ ,][A-Za-z]{2,}|^[A-Z][a-z]+$/;
/** Attributes, and functions, whose words nobody reads. */
const UNREAD = /(?:\b(?:class|transform|rel|d): |\bmatchMedia\(|\b(?:matches|closest|within|querySelector|querySelectorAll)\((?:\w+, )?)$/;
/** Names of keys, of what is dragged, and of entries; selectors; lists of classes. */
const NAMES = new Set(["Enter", "Escape", "Key", "Digit", "Arrow", "Backspace", "Files", "Bearer ", "reactor-token ", "finger "]);
const STYLES = ["style.css", "hands.css"].map((name) => readFileSync(new URL(name, PAGE), "utf8")).join("");
const CLASSES = new Set([...STYLES.matchAll(/\.([a-z][\w-]*)/g)].map(([, name]) => name));
const isName = (text: string): boolean =>
  NAMES.has(text) || /[[(#].*[\])]/.test(text) || text.split(" ").every((word) => CLASSES.has(word));

/** The table of texts, and what writes lines of programs, which have no language. */
const TEXTLESS = new Set(["strings.ts", "api-lines.ts"]);

/** The literals of a module that a user may read. A single word in small letters passes. */
function shown(source: string): string[] {
  // Without types, and with "".concat(x, " words") instead of templates.
  const { code } = transformSync(source, { loader: "ts", supported: { "template-literal": false }, charset: "utf8" });
  const lines = code.split("\n").filter((line) => !/^import |throw new TypeError\(/.test(line)); // a TypeError is a mistake of the page itself
  const plain = lines.join("\n");
  return [...plain.matchAll(LITERAL)]
    .filter(({ index }) => !UNREAD.test(plain.slice(0, index)))
    .map(([, double, single]) => double ?? single ?? "")
    .filter((text) => TEXT.test(text) && !isName(text));
}

test("a text in a module is found", () => {
  assert.deepEqual(shown('const a = "Try again";'), ["Try again"]);
  assert.deepEqual(shown(`show(\`\${n} skipped\`); show(\`Start \${name}\`, \`\${n} of \${all}.\`)`), [" skipped", "Start ", " of "]);
  assert.deepEqual(shown('element("button", { class: "control card", title: "Stop" }, "go on")'), ["Stop", "go on"]);
  assert.deepEqual(shown(`const a = /"[^/]/.test(b) ? 'Not now' : c / d / "e"; // "No text"`), ["Not now"]);
  assert.deepEqual(shown(`import { a } from "A b"; within(box, "tr td"); icon(["M5 3v10M11 3v10"]); \`rotate(\${n} 2)\``), []);
});

for (const name of readdirSync(PAGE).filter((each) => each.endsWith(".ts") && !TEXTLESS.has(each)))
  test(`${name} has no text of its own`, () => {
    assert.deepEqual(shown(readFileSync(new URL(name, PAGE), "utf8")), [], "these belong into page/strings.ts");
  });
