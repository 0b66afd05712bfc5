/** Lines that send a command, for programs: JavaScript, Python, the command line. Pure. */
import { type Field, readField } from "../src/controls.ts";
import type { CommandDescription } from "../src/wire.ts";

/** Values by argument. */
export type Arguments = { readonly [argument: string]: unknown };

/** Where the lines go. */
export interface Target {
  /** The server's page. */
  readonly base: string;
  /** Whether the server wants a credential. The lines never have it; they name a variable. */
  readonly token: boolean;
}

/** The arguments of a command, as the page's fields read them. */
export function argumentsOf({ schema = {} }: CommandDescription): Field[] {
  const { properties = {}, required = [] } = schema as { properties?: { [name: string]: object }; required?: readonly string[] };
  return Object.entries(properties).map(([name, property]) =>
    readField(name, property as { [keyword: string]: unknown }, { required: required.includes(name), root: schema }),
  );
}

/** A value that the server takes for the field, so far as its schema says. */
export function exampleOf(field: Field): unknown {
  if (field.initial !== undefined) return field.initial;
  switch (field.kind) {
    case "slider":
    case "number": {
      const { minimum = 0, maximum = Infinity } = field;
      return Math.min(maximum, Math.max(minimum, 1));
    }
    case "text":
      return "text";
    case "select":
      return field.choices[0] ?? null;
    case "checkbox":
      return true;
    case "upload":
      return { upload_id: "ID" };
    case "json":
      return field.nullable ? null : {};
  }
}

/** `client.command(...)` of the web client, with what comes before it. */
export function javascript({ base, token }: Target, name: string, given: Arguments): string {
  const call = Object.keys(given).length ? `, ${JSON.stringify(given)}` : "";
  return [...connected({ base, token }), `const { step, reply } = await client.command(${JSON.stringify(name)}${call});`].join("\n");
}

const connected = ({ base, token }: Target): readonly string[] => [
  `import { connect } from "${new URL("page/client.js", base).href}";`,
  "",
  `const client = connect("${base}"${token ? ", { token: TOKEN }" : ""});`,
];

/** The same with the Python client. */
export function python({ base, token }: Target, name: string, given: Arguments): string {
  const entries = Object.entries(given);
  const plain = entries.every(([argument]) => isPythonName(argument));
  const words = plain
    ? entries.map(([argument, value]) => `, ${argument}=${pythonValue(value)}`).join("")
    : `, **${pythonValue(Object.fromEntries(entries))}`;
  return script({ base, token }, [`print(await client.command(${JSON.stringify(name)}${words}))`]);
}

/** A program with a `client`. */
const script = ({ base, token }: Target, lines: readonly string[]): string =>
  [
    "import asyncio",
    ...(token ? ["import os"] : []),
    "from reactor_trio.client import connect",
    "",
    "async def main():",
    `    async with connect("${base}"${token ? ', token=os.environ["REACTOR_TOKEN"]' : ""}) as client:`,
    ...lines.map((line) => `        ${line}`),
    "",
    "asyncio.run(main())",
  ].join("\n");

/** The same with the command line of the Python package, which takes its token from REACTOR_TOKEN. */
export function commandLine({ base }: Target, name: string, given: Arguments): string {
  const sent = Object.keys(given).length ? `${name}=${JSON.stringify(given)}` : name;
  return `reactor client ${quoted(base)} --send ${quoted(sent)}`;
}

/** A page that shows the model's pictures. */
export function connectJavascript(target: Target): string {
  return [
    ...connected(target),
    'client.attach(document.querySelector("canvas"));',
    'client.on("state", ({ status }) => console.log(status));',
  ].join("\n");
}

/** A script that takes one picture. */
export const connectPython = (target: Target): string =>
  script(target, ["async for frame in client.frames():", "    print(frame.data.shape)", "    break"]);

/** Asks what the model can do; pictures and commands need a WebSocket. */
export const curlSchema = ({ base, token }: Target): string =>
  `curl ${token ? '-H "Authorization: Bearer $REACTOR_TOKEN" ' : ""}${quoted(new URL("schema", base).href)}`;

/** Sends a file with the upload token of a session. */
export const curl = ({ base }: Target): string => {
  const address = new URL("uploads?name=picture.png&mime_type=image/png", base).href;
  return `curl --data-binary @picture.png -H "Authorization: Bearer $UPLOAD_TOKEN" "${address}"`;
};

/** For a POSIX shell. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

const RESERVED = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);

const isPythonName = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name) && !RESERVED.has(name);

/** JSON data as Python writes it. */
export function pythonValue(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, each]) => `${JSON.stringify(key)}: ${pythonValue(each)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}
