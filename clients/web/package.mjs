/**
 * Builds the npm package into dist/, which is not committed.
 *
 *   node package.mjs             writes dist/
 *   node package.mjs --check     writes it, and checks it: its declarations have no `any`, test/types compiles as it should, what the
 *                                programs of test/programs load is within budgets.json, publint and attw find nothing
 *   node package.mjs --budgets   writes it, and the programs' present modules into budgets.json
 *
 * dist/ has one file for each module, as tsc writes it, so that an application's bundler takes what the application uses.
 * Bundled are only the worker and the worklets, which a browser loads by their addresses, and standalone.js, for pages without a
 * bundler. Worker and worklets lie beside each module that names them by `new URL(..., import.meta.url)`.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { exceededByPrograms } from "./budgets.ts";

const HERE = dirname(fileURLToPath(import.meta.url));
const DIST = join(HERE, "dist");
/** Files that are loaded by address, and the folder of the module that names each. */
const BESIDE = { "decoder-worker": "media", "audio-player-worklet": "sound", "microphone-worklet": "input" };

const OPTIONS = { absWorkingDir: HERE, bundle: true, format: "esm", target: "es2022", tsconfigRaw: {}, minify: true, logLevel: "warning" };

/** The ways in which TypeScript finds a package. */
const RESOLUTIONS = { nodenext: "nodenext", node16: "node16", preserve: "bundler" };
/** Run by npx: they are needed here alone, and bring many packages. */
const LINTERS = ["publint@0.3.25", "@arethetypeswrong/cli@0.18.5"];
/**
 * What each program of test/programs loads besides its start: modules that it makes the client load, and files beside them. `whole`: it is
 * bundled into one file, as by a bundler that does not split.
 */
const PROGRAMS = {
  alone: { modules: [], files: [], whole: true },
  client: { modules: [], files: [] },
  react: { modules: [], files: [] },
  element: { modules: [], files: [] },
  session: { modules: ["client/upload"], files: [] },
  picture: { modules: ["client/media"], files: ["decoder-worker"] },
  everything: {
    modules: ["client/upload", "client/media", "media/recorder", "sound/audio-player", "client/inputs", "input/devices"],
    files: [],
  },
};

/** Runs a program of Node's, and ends with its status if it fails. */
function run(...command) {
  const { status } = spawnSync(process.execPath, command, { cwd: HERE, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

const TSC = join(HERE, "node_modules/typescript/bin/tsc");

rmSync(DIST, { recursive: true, force: true });
run(TSC, "-p", "tsconfig.build.json");

// tsc rewrites the extensions of imports in modules, but not in their declarations.
const declarations = readdirSync(DIST, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".d.ts"));
for (const name of declarations) {
  const path = join(DIST, name);
  writeFileSync(path, readFileSync(path, "utf8").replaceAll(/(\bfrom |\bimport\(|\bimport )("\.[^"]*)\.tsx?"/g, '$1$2.js"'));
}

const BUNDLED = { ...OPTIONS, outdir: DIST, allowOverwrite: true };
await build({
  ...BUNDLED,
  entryPoints: Object.entries(BESIDE).map(([name, folder]) => ({ in: `src/worker/${name}.ts`, out: `${folder}/${name}` })),
});
// As in the viewer page: the stack trace that a user sends can be read.
await build({ ...BUNDLED, entryPoints: [{ in: "src/standalone.ts", out: "standalone" }], keepNames: true });
for (const [name, folder] of Object.entries(BESIDE)) {
  copyFileSync(join(DIST, folder, `${name}.js`), join(DIST, `${name}.js`)); // for standalone.js, and to be hosted
  writeFileSync(join(DIST, `${name}.d.ts`), "export {};\n");
}
copyFileSync(join(HERE, "../../LICENSE"), join(DIST, "LICENSE"));

/** The modules, and the sum of the files in gzip, that a program loads. */
async function measure(name, { modules, files, whole = false }) {
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: [`test/programs/${name}.ts`],
    outdir: join(HERE, "measured"),
    splitting: !whole,
    external: ["react"],
    metafile: true,
    write: false,
  });
  const { outputs } = metafile;
  const starts = [`test/programs/${name}.ts`, ...modules.map((module) => `dist/${module}.js`)];
  const loaded = new Set();
  const load = (path) => {
    if (loaded.has(path)) return;
    loaded.add(path);
    for (const { kind, path: imported, external } of outputs[path].imports) if (kind === "import-statement" && !external) load(imported);
  };
  for (const start of starts) {
    const found = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint === start);
    if (found === undefined) throw new Error(`test/programs/${name}.ts has no part ${start}: mend PROGRAMS in package.mjs`);
    load(found[0]);
  }
  const texts = outputFiles.filter(({ path }) => loaded.has(relative(HERE, path).replaceAll("\\", "/"))).map(({ contents }) => contents);
  texts.push(...files.map((file) => readFileSync(join(DIST, `${file}.js`))));
  const inputs = [...loaded].flatMap((path) => Object.entries(outputs[path].inputs));
  return {
    gzip: texts.reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0),
    modules: Object.fromEntries(inputs.map(([input, { bytesInOutput }]) => [input, bytesInOutput]).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

const BUDGETS = join(HERE, "budgets.json");

if (process.argv.includes("--check") || process.argv.includes("--budgets")) {
  const budgets = JSON.parse(readFileSync(BUDGETS, "utf8"));
  const measured = Object.fromEntries(
    await Promise.all(Object.entries(PROGRAMS).map(async ([name, loads]) => [name, await measure(name, loads)])),
  );
  const each = (key) => Object.fromEntries(Object.entries(measured).map(([name, program]) => [name, program[key]]));
  if (process.argv.includes("--budgets")) {
    for (const [name, { gzip, modules }] of Object.entries(measured)) {
      console.log(`test/programs/${name}.ts loads ${gzip} B in gzip`);
      budgets.programs[name] = { gzip: budgets.programs[name]?.gzip ?? gzip, modules };
    }
    writeFileSync(BUDGETS, `${JSON.stringify(budgets, null, 2)}\n`);
  } else {
    const complaints = declarations
      .filter((name) => /\bany\b/.test(readFileSync(join(DIST, name), "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")))
      .map((name) => `dist/${name} has the type any.`);
    const large = exceededByPrograms(budgets, each("gzip"), each("modules"));
    complaints.push(...large);
    if (large.length) complaints.push("Make it smaller, or raise the budget in clients/web/budgets.json and run scripts/web budgets.");
    for (const complaint of complaints) console.error(complaint);
    if (complaints.length) process.exit(1);
    for (const [module, resolution] of Object.entries(RESOLUTIONS))
      run(TSC, "-p", "test/types", "--module", module, "--moduleResolution", resolution);
    lint();
  }
}

/** Packs the package, and looks at what an application would find in it. */
function lint() {
  const folder = mkdtempSync(join(tmpdir(), "reactor-trio-"));
  try {
    npm("npm", ["pack", "--silent", "--pack-destination", folder]);
    const [tarball] = readdirSync(folder);
    const [publint, attw] = LINTERS;
    const npx = (...args) => npm("npx", ["--yes", "--prefer-offline", ...args, join(folder, tarball)]);
    if (!npx(publint, "--strict") || !npx(attw, "--profile", "esm-only", "--quiet"))
      console.error(
        `The npm registry cannot be reached. The package was not checked by ${LINTERS.join(" and ")}, which npx fetches once.\n` +
          "All checks before these have passed. Connect to the network, and run scripts/web check again.",
      );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs a program of npm's, which has to succeed. Returns false if it needs a registry that cannot be reached. */
function npm(program, args) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: HERE, encoding: "utf8" });
  if (status === 0) return true;
  console.error(`${program} ${args.join(" ")}\n${stdout}${stderr}`);
  process.exitCode = 1;
  return !/npm error code (E(AI_AGAIN|CONNREFUSED|CONNRESET|NOTFOUND|NETUNREACH|TIMEDOUT|NOTCACHED))\b/.test(stderr);
}
