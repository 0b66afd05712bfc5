/** What the model says of itself, settings in an address, and limits in words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { brokenLimit } from "../page/limits.ts";
import { addressWith, valuesIn } from "../page/settings-link.ts";
import { fillIn } from "../page/strings.ts";
import type { Field } from "../src/controls.ts";

test("an address carries settings, and nothing secret", () => {
  const values = { prompt: "Äpfel & 100 % / “quoted”", speed: 1.5, fog: true, none: null };
  const address = addressWith(values, "https://host/demo/?video=jpeg&token=secret#token=other");
  assert.match(address, /^https:\/\/host\/demo\/\?video=jpeg#s=[\w-]+$/);
  assert.deepEqual(valuesIn(address), values);
});

test("an address without settings that can be read carries none", () => {
  const carried = (json: string): string => `https://host/#s=${btoa(json)}`;
  for (const address of [
    "https://host/",
    "https://host/#s=",
    "https://host/#s=%%%",
    "https://host/#s=____",
    carried("[1]"),
    carried("null"),
    carried('"text"'),
    carried("{"),
    `https://host/#s=${"A".repeat(8193)}`,
  ])
    assert.deepEqual(valuesIn(address), {}, address);
});

test("a broken limit is said in few words", () => {
  const field = { name: "speed", title: "Speed", description: "", nullable: false, required: true, initial: 1 };
  const slider: Field = { ...field, kind: "slider", integer: true, minimum: 0, maximum: 20, step: 1 };
  assert.equal(brokenLimit(slider, 21), "Choose at most 20.");
  assert.equal(brokenLimit(slider, -1), "Choose at least 0.");
  assert.equal(brokenLimit(slider, 1.5), "Choose a whole number.");
  assert.equal(brokenLimit(slider, 20), null);
  assert.equal(brokenLimit(slider, "20"), null);
  const words: Field = { ...field, kind: "text", minLength: 1, maxLength: 3, long: false };
  assert.equal(brokenLimit(words, "four"), "Write at most 3 characters.");
  assert.equal(brokenLimit(words, ""), "Write at least one character.");
  assert.equal(brokenLimit({ ...words, minLength: 2 }, "f"), "Write at least 2 characters.");
  assert.equal(brokenLimit(words, "🎈🎈🎈"), null); // the server counts characters, not UTF-16 units
});

test("a text is filled in", () => {
  assert.equal(fillIn("{n} of {total}, {unknown}", { n: 1, total: "two" }), "1 of two, {unknown}");
});
