// The lock file installs on each system, from whichever registry is configured.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

interface Locked {
  readonly resolved?: string;
  readonly integrity?: string;
  readonly optionalDependencies?: { readonly [name: string]: string };
}

test("the lock file names every optional package, for other systems too, and no registry", async () => {
  const text = await readFile(new URL("../package-lock.json", import.meta.url), "utf8");
  const { packages } = JSON.parse(text) as { packages: { readonly [place: string]: Locked } };
  const wanted = Object.values(packages).flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies));
  assert.ok(wanted.includes("@biomejs/cli-darwin-arm64"));
  assert.deepEqual(
    wanted.filter((name) => packages[`node_modules/${name}`]?.integrity === undefined),
    [],
  );
  assert.deepEqual(
    Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined),
    [],
  );
});
