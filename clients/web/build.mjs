/**
 * Builds the viewer page into ../../src/reactor_trio/page, where the server finds it and the wheel takes it from.
 *
 *   node build.mjs            writes the files, and built.json beside them
 *   node build.mjs --check    fails if they are not what these sources give, byte for byte, or exceed budgets.json
 *   node build.mjs --budgets  writes the modules' present sizes into budgets.json; for after a budget was changed there
 *
 * built.json names every input and output with its SHA-256, so that a test without Node sees that somebody has changed a
 * source and not built.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, version as esbuild } from "esbuild";
import { exceeded } from "./budgets.ts";
import { HTML } from "./page/strings.ts";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../../src/reactor_trio/page");
const BUDGETS = join(HERE, "budgets.json");
/** What each file of the page is made of. `client.js` and `protocol.js` are for other people's pages. */
const ENTRIES = {
  main: "page/main.ts",
  style: "page/style.css",
  later: "page/later.css",
  hands: "page/hands.css",
  details: "page/details.css",
  fullscreen: "page/fullscreen.css",
  inputs: "page/inputs.css",
  latency: "page/latency.css",
  worlds: "page/worlds.css",
  strip: "page/strip.css",
  slots: "page/slots.css",
  "decoder-worker": "src/worker/decoder-worker.ts",
  "audio-player-worklet": "src/worker/audio-player-worklet.ts",
  "microphone-worklet": "src/worker/microphone-worklet.ts",
  client: "src/standalone.ts",
  protocol: "src/wire/packet-session.ts",
};
/** Parts that `main`, or one of these, loads when they are used, by `import()`. What they share, each has again: first loads are to be small. */
const LATER = {
  "api-page": "page/api-page.ts",
  clip: "page/clip.ts",
  de: "page/languages/de.ts",
  fr: "page/languages/fr.ts",
  "figures-panel": "page/figures-panel.ts",
  gamepad: "page/gamepad.ts",
  "hands-again": "src/client/hands-again.ts",
  "moment-picture": "src/client/moment-picture.ts",
  "on-page": "src/media/on-page.ts",
  devices: "src/input/devices.ts",
  inputs: "page/inputs.ts",
  iterators: "src/client/iterators.ts",
  "idle-bar": "page/idle-bar.ts",
  "key-legend": "page/key-legend.ts",
  limits: "page/limits.ts",
  "made-hint": "page/made-hint.ts",
  "message-log": "page/message-log.ts",
  "pointer-lock": "page/pointer-lock.ts",
  publications: "src/client/inputs.ts",
  recorder: "src/media/recorder.ts",
  slots: "page/slots.ts",
  "settings-link": "page/settings-link.ts",
  "share-link": "page/share-link.ts",
  sound: "src/sound/audio-player.ts",
  "touch-pads": "page/touch-pads.ts",
  upload: "src/client/upload.ts",
  "upload-field": "page/upload-field.ts",
  widgets: "page/widgets.ts",
  worlds: "page/worlds.ts",
  answers: "page/answers.ts",
  "ending-banner": "page/ending-banner.ts",
  "failure-notice": "page/failure-notice.ts",
  scrub: "page/scrub.ts",
  "step-down": "page/step-down.ts",
  strip: "page/strip.ts",
};
const COPIED = ["index.html", "icon.svg"];
/** Where the texts of index.html are: it has their names between double braces. */
const STRINGS = "page/strings.ts";
/** Besides the entries' own sources: what decides over the bytes. esbuild reads `sideEffects` in package.json. */
const RECIPE = ["build.mjs", "package.json", "package-lock.json"];

const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const sorted = (map) => Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
const json = (value) => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
const slashes = (path) => path.split(sep).join("/");

/** The page's files by name, the names of all files that they are made of, and the sizes of the modules in each. */
async function page() {
  const { main, "decoder-worker": worker, ...others } = ENTRIES;
  const isLater = (from, path) => fileOf(from, path) !== undefined;
  const built = await Promise.all([
    bundle({ main }, [LOADED_LATER, inTheSameFile(isLater)]),
    bundle(LATER, [LOADED_LATER, LANGUAGE_KEPT, inTheSameFile(isLater)]),
    bundle(others, [inTheSameFile(() => false)]),
    // Its errors reach the page as texts, so that nobody sees the names of its functions.
    bundle({ "decoder-worker": worker }, [inTheSameFile(() => false)], { keepNames: false }),
  ]);
  const files = new Map(built.flatMap((each) => each.files));
  for (const name of COPIED) files.set(name, readFileSync(join(HERE, "page", name)));
  files.set("index.html", Buffer.from(withTexts(String(files.get("index.html")))));
  const inputs = [...new Set(built.flatMap((each) => each.inputs)), ...COPIED.map((name) => `page/${name}`), STRINGS, ...RECIPE];
  return { files, inputs, modules: sorted(built.flatMap((each) => each.modules)) };
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function withTexts(html) {
  return html.replace(/\{\{(\w+)\}\}/g, (_, name) => {
    if (!(name in HTML)) throw new Error(`page/index.html has {{${name}}}, which ${STRINGS} does not have`);
    return HTML[name].replace(/[&<>"]/g, (sign) => ESCAPES[sign]);
  });
}

/** The name of the built file that an `import()` of `path` in the folder `from` loads; undefined: the module is in the same file. */
function fileOf(from, path) {
  const module = slashes(relative(HERE, join(from, path)));
  return Object.keys(LATER).find((name) => LATER[name] === module);
}

/** Leaves an `import()` of a module in LATER as one of its built file. */
const LOADED_LATER = {
  name: "loaded later",
  setup({ onResolve }) {
    onResolve({ filter: /\.ts$/ }, ({ kind, path, resolveDir }) => {
      const name = kind === "dynamic-import" ? fileOf(resolveDir, path) : undefined;
      return name === undefined ? null : { path: `./${name}.js`, external: true };
    });
  },
};

/** Parts that are loaded later take the language that `main` has loaded. */
const LANGUAGE_KEPT = {
  name: "language kept",
  setup({ onResolve }) {
    onResolve({ filter: /\/language\.ts$/ }, ({ resolveDir }) => ({ path: join(resolveDir, "language-kept.ts") }));
  },
};

/**
 * Makes an `import()` of a module that is in the same file an `import` of it: esbuild would wrap that module, and all that it imports, into
 * functions that run later, which takes 400 B in gzip. `isLater` says which modules are in files of their own.
 */
const inTheSameFile = (isLater) => ({
  name: "in the same file",
  setup({ onLoad }) {
    onLoad({ filter: /[/\\]src[/\\].*\.ts$/ }, ({ path }) => {
      const imported = [];
      const contents = readFileSync(path, "utf8").replace(/\bimport\("(\.[^"]+)"\)/g, (call, from) => {
        if (isLater(dirname(path), from)) return call;
        imported.push(`import * as module${imported.length} from "${from}";`);
        return `Promise.resolve(module${imported.length - 1})`;
      });
      return { contents: imported.join("") + contents, loader: "ts" };
    });
  },
});

async function bundle(entries, plugins, options = {}) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: Object.entries(entries).map(([out, input]) => ({ in: input, out })),
    outdir: OUT,
    plugins,
    bundle: true,
    format: "esm",
    target: "es2022",
    tsconfigRaw: {}, // tsconfig.json is for the type checker alone
    minify: true,
    // Functions keep their names, for 2 kB: the stack trace that a user sends can be read.
    keepNames: true,
    legalComments: "eof", // of a library: who made it, its licence, and where that is
    charset: "utf8",
    metafile: true,
    write: false,
    logLevel: "warning",
    ...options,
  });
  const files = outputFiles.map(({ path, contents }) => [relative(OUT, path), contents]);
  // A library's version is in package-lock.json; without Node its files are not there.
  const inputs = Object.keys(metafile.inputs)
    .map(slashes)
    .filter((name) => !name.includes("node_modules/"));
  const modules = Object.entries(metafile.outputs).map(([path, { inputs }]) => [
    relative(OUT, join(HERE, path)),
    sorted(Object.entries(inputs).map(([name, { bytesInOutput }]) => [slashes(name), bytesInOutput])),
  ]);
  return { files, inputs, modules };
}

const { files, inputs, modules } = await page();
const budgets = JSON.parse(readFileSync(BUDGETS, "utf8"));
const gzip = sorted([...files].map(([name, data]) => [name, gzipSync(data, { level: 9 }).length]));
const record = {
  tools: { esbuild },
  inputs: sorted(inputs.map((name) => [name, sha256(readFileSync(join(HERE, name)))])),
  outputs: sorted([...files].map(([name, data]) => [name, sha256(data)])),
};
files.set("built.json", json(record));

const present = readdirSync(OUT);
if (process.argv.includes("--check")) {
  const stale = [...files].filter(([name, data]) => !present.includes(name) || !Buffer.from(data).equals(readFileSync(join(OUT, name))));
  const wrong = [...stale.map(([name]) => name), ...present.filter((name) => !files.has(name))];
  const complaints = wrong.length
    ? [`src/reactor_trio/page is not what clients/web gives: ${wrong.join(", ")}. Build it: scripts/web build`]
    : [];
  const large = exceeded(budgets, gzip, modules);
  complaints.push(...large);
  if (large.length) complaints.push("Make it smaller, or raise the budget in clients/web/budgets.json and run scripts/web budgets.");
  for (const complaint of complaints) console.error(complaint);
  if (complaints.length) process.exitCode = 1;
} else if (process.argv.includes("--budgets")) {
  writeFileSync(BUDGETS, json({ ...budgets, modules }));
} else {
  for (const name of present) if (!files.has(name)) rmSync(join(OUT, name));
  for (const [name, data] of files) writeFileSync(join(OUT, name), data);
}
