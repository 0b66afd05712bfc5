// The layers of the web client: which folder may import which. The page imports the package's entries alone; nothing imports the page.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
/** The folders of `src`. Each may import those to its left. Modules beside the folders are entries, which may import all of them and each other. */
const LAYERS = ["wire", "session", "media", "sound", "input", "controls", "figures", "worker", "client", "react"];
const IMPORT = /^\s*(?:import|export)\b[^;"]*?from "([^"]+)"|^\s*import "([^"]+)"|\bimport\("([^"]+)"\)/gm;

function modules(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `${folder}/${name}`)
    .sort();
}

/** What a source text imports, types included: paths below `clients/web`, or the names of packages. */
function imports(module: string, source: string): string[] {
  return [...source.matchAll(IMPORT)].map(([, from, bare, dynamic]) => {
    const name = from ?? bare ?? dynamic ?? "";
    return name.startsWith(".") ? relative(ROOT, join(ROOT, dirname(module), name)) : name;
  });
}

/** Whether the rule allows a module of `src` this import. */
function allowed(module: string, imported: string): boolean {
  if (imported === "react") return /^src\/react[./]/.test(module); // an optional peer
  const [from, to] = [module, imported].map((path) => path.split("/")) as [string[], string[]];
  if (to[0] !== "src") return false; // the page, or a package: the client has no dependency
  if (to.length === 2) return from.length === 2; // an entry, for entries alone
  if (from.length === 2) return true;
  return LAYERS.indexOf(to[1] ?? "") <= LAYERS.indexOf(from[1] ?? "");
}

test("each folder of the sources has its place", () => {
  const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  assert.deepEqual(
    folders.map(({ name }) => name).filter((name) => !LAYERS.includes(name)),
    [],
  );
});

test("imports go to the left only", () => {
  const found = modules("src").flatMap((module) =>
    [...new Set(imports(module, readFileSync(join(ROOT, module), "utf8")))]
      .filter((imported) => !allowed(module, imported))
      .map((imported) => `${module} imports ${imported}`),
  );
  assert.deepEqual(found, []);
});

test("the page imports nothing but the package's entries, as other people's pages do", () => {
  const entry = (path: string): boolean => /^src\/[^/]+$/.test(path);
  /** A library, which the build puts into that module's file alone. */
  const library = (module: string, imported: string): boolean => module === "page/clip.ts" && imported === "mediabunny";
  const found = modules("page").flatMap((module) =>
    imports(module, readFileSync(join(ROOT, module), "utf8"))
      .filter((imported) => !imported.startsWith("page/") && !entry(imported) && !library(module, imported))
      .map((imported) => `${module} imports ${imported}`),
  );
  assert.deepEqual(found, []);
  assert.deepEqual(["src/index.ts", "src/client/view.ts", "react"].map(entry), [true, false, false]);
});

test("every kind of import is seen, and told right from wrong", () => {
  const source = `
    import { a } from "../wire/a.ts";
    import type {
      B, C,
    } from "../figures/b.ts";
    export { d } from "./d.ts";
    export * from "../worker/e.ts";
    import "react";
    const f = await import("../../page/f.ts");
  `;
  const found = imports("src/media/x.ts", source);
  assert.deepEqual(found, ["src/wire/a.ts", "src/figures/b.ts", "src/media/d.ts", "src/worker/e.ts", "react", "page/f.ts"]);
  assert.deepEqual(
    found.map((imported) => allowed("src/media/x.ts", imported)),
    [true, false, true, false, false, false],
  );
  assert.deepEqual(
    found.map((imported) => allowed("src/index.ts", imported)),
    [true, true, true, true, false, false],
  );
  assert.equal(allowed("src/wire/x.ts", "src/index.ts"), false);
  assert.equal(allowed("src/react.ts", "react"), true);
});
