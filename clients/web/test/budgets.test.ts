// What is said when a built file has become larger than its budget.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Budgets, exceeded, exceededByPrograms } from "../budgets.ts";

const BUDGETS: Budgets = {
  files: { "main.js": 1000, "worker.js": 500 },
  firstLoad: { files: ["main.js", "worker.js"], gzip: 1400 },
  programs: {},
  modules: { "main.js": { "a.ts": 900, "b.ts": 800, "c.ts": 700 }, "worker.js": { "b.ts": 800 } },
};
const MODULES = BUDGETS.modules;

test("sizes up to the budgets pass", () => {
  assert.deepEqual(exceeded(BUDGETS, { "main.js": 1000, "worker.js": 400 }, MODULES), []);
});

test("a file that is too large names the modules that grew, the largest growth first", () => {
  const modules = { ...MODULES, "main.js": { "a.ts": 901, "b.ts": 500, "c.ts": 1100, "d.ts": 30, "e.ts": 20 } };
  assert.deepEqual(exceeded(BUDGETS, { "main.js": 1001, "worker.js": 10 }, modules), [
    "main.js takes 1001 B in gzip, its budget is 1000 B. Since the budgets were set these modules have grown, before gzip: " +
      "c.ts by 400 B, d.ts by 30 B, e.ts by 20 B, and others.",
  ]);
});

test("the first load has a budget of its own, and a module in two files counts twice", () => {
  const modules = { "main.js": { "a.ts": 910, "b.ts": 840 }, "worker.js": { "b.ts": 840 } };
  assert.deepEqual(exceeded(BUDGETS, { "main.js": 950, "worker.js": 451 }, modules), [
    "The first load takes 1401 B in gzip, its budget is 1400 B. Since the budgets were set these modules have grown, before gzip: " +
      "b.ts by 80 B, a.ts by 10 B.",
  ]);
});

test("a file without a budget and a budget without a file are mistakes", () => {
  assert.deepEqual(exceeded(BUDGETS, { "main.js": 1, "new.js": 1 }, MODULES), [
    "new.js has no budget in budgets.json.",
    "budgets.json has a budget for worker.js, which is not built.",
  ]);
});

test("a budget that was set too low is told from a module that grew", () => {
  const [message] = exceeded(BUDGETS, { "main.js": 2000, "worker.js": -1000 }, MODULES);
  assert.match(message ?? "", /No module has grown since the budgets were set\.$/);
});

test("a program with the package that loads too much names the modules that grew", () => {
  const programs = { small: { gzip: 100, modules: { "dist/a.js": 90 } } };
  assert.deepEqual(exceededByPrograms({ programs }, { small: 100 }, { small: { "dist/a.js": 95 } }), []);
  assert.deepEqual(exceededByPrograms({ programs }, { small: 101, other: 1 }, { small: { "dist/a.js": 95 }, other: {} }), [
    "test/programs/small.ts takes 101 B in gzip, its budget is 100 B. Since the budgets were set these modules have grown, before gzip: " +
      "dist/a.js by 5 B.",
    "test/programs/other.ts has no budget in budgets.json.",
  ]);
});
