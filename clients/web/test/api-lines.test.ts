// The lines of the API page are what each language reads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { argumentsOf, commandLine, curl, exampleOf, javascript, python } from "../page/api-lines.ts";
import { describeType } from "../page/api-page.ts";

const HERE = { base: "https://demo.test/a/", token: false };
const LOCKED = { ...HERE, token: true };
const GIVEN = { on: true, off: false, none: null, words: 'it\'s "1"', list: [1, { a: null }] };

test("JavaScript", () => {
  assert.equal(
    javascript(HERE, "jump", { by: 3 }),
    `import { connect } from "https://demo.test/a/page/client.js";

const client = connect("https://demo.test/a/");
const { step, reply } = await client.command("jump", {"by":3});`,
  );
  assert.match(javascript(LOCKED, "reset", {}), /connect\("https:\/\/demo.test\/a\/", \{ token: TOKEN \}\);\n.*command\("reset"\);$/);
});

test("Python", () => {
  assert.equal(
    python(HERE, "jump", GIVEN),
    `import asyncio
from reactor_trio.client import connect

async def main():
    async with connect("https://demo.test/a/") as client:
        print(await client.command("jump", on=True, off=False, none=None, words="it's \\"1\\"", list=[1, {"a": None}]))

asyncio.run(main())`,
  );
  assert.match(
    python(LOCKED, "jump", { from: 1, to: 2 }),
    /token=os.environ\["REACTOR_TOKEN"\]\) as client:\n.*"jump", \*\*\{"from": 1, "to": 2\}\)\)/,
  );
});

test("command line", () => {
  assert.equal(commandLine(HERE, "reset", {}), "reactor client https://demo.test/a/ --send reset");
  assert.equal(commandLine(HERE, "say", { it: "it's" }), `reactor client https://demo.test/a/ --send 'say={"it":"it'\\''s"}'`);
  assert.match(curl(HERE), /"https:\/\/demo.test\/a\/uploads\?name=/);
});

test("arguments, their types, and examples of them", () => {
  const fields = argumentsOf({
    name: "all",
    schema: {
      properties: {
        n: { type: "integer", minimum: 5 },
        f: { type: "number", maximum: -1 },
        s: { type: "number", minimum: 0, maximum: 2, default: 1.5 },
        t: { type: "string", maxLength: 9 },
        b: { type: "boolean" },
        c: { anyOf: [{ enum: ["a", 1] }, { type: "null" }] },
        u: { "x-reactor": "upload" },
        j: { type: "array" },
      },
      required: ["n"],
    },
  });
  assert.deepEqual(fields.map(exampleOf), [5, -1, 1.5, "text", true, "a", { upload_id: "ID" }, {}]);
  assert.deepEqual(fields.map(describeType), [
    "a whole number, at least 5",
    "a number, at most -1",
    "a number from 0 to 2",
    "a text of at most 9 characters",
    "true or false",
    'one of "a", 1, or null',
    "a file that was uploaded",
    "JSON",
  ]);
});
