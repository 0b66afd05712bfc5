// The page's parts that need no document: schema, coalescing of commands, statistics, reconnection, names of keys.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AccessToken } from "../page/access.ts";
import type { Diagnosis, Wishes } from "../page/endings.ts";
import { askIntroduction, describeEnd, diagnose, explain } from "../page/endings.ts";
import { describeWait } from "../page/overlay.ts";
import { wordsOf } from "../page/refused-words.ts";
import { stallOf } from "../page/stall.ts";
import { STRINGS } from "../page/strings.ts";
import type { Field } from "../src/controls/field.ts";
import { niceStep, readField } from "../src/controls/field.ts";
import { keyNames, needsKey } from "../src/controls/keyboard.ts";
import { readCommands } from "../src/controls/schema.ts";
import { Latency } from "../src/figures/latency.ts";
import { Statistics } from "../src/figures/statistics.ts";
import { SessionEnded } from "../src/index.ts";
import { Coalescer } from "../src/input/coalesce.ts";
import { backoff } from "../src/session/comeback.ts";
import type { CommandDescription, JsonSchema } from "../src/wire/messages.ts";
import type { Role } from "../src/wire/protocol.ts";

const read = (property: JsonSchema, options?: { root: JsonSchema }): Field => readField("some_field", property, options);
const about = (property: JsonSchema, ...names: string[]): unknown[] => {
  const field: { readonly [name: string]: unknown } = { ...read(property) };
  return names.map((name) => field[name]);
};

test("numbers", () => {
  assert.deepEqual(about({ type: "number", minimum: 0, maximum: 2 }, "kind", "minimum", "maximum", "step"), ["slider", 0, 2, 0.01]);
  assert.deepEqual(about({ type: "integer", minimum: 1, maximum: 9 }, "kind", "step", "integer"), ["slider", 1, true]);
  assert.deepEqual(about({ type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 9 }, "minimum", "maximum"), [1, 8]);
  assert.deepEqual(about({ type: "number", exclusiveMinimum: 0, maximum: 1 }, "minimum", "maximum", "step"), [0.005, 1, 0.005]);
  assert.deepEqual(about({ type: "number", minimum: 0, maximum: 1, multipleOf: 0.25 }, "step"), [0.25]);
  assert.deepEqual(about({ type: "number", minimum: 0 }, "kind", "minimum", "maximum"), ["number", 0, undefined]);
  assert.deepEqual(about({ type: "integer" }, "kind", "integer"), ["number", true]);
  assert.deepEqual(about({ type: "number", minimum: 1, maximum: 1 }, "kind"), ["number"]);
});

test("steps read well", () => {
  assert.deepEqual([0.001, 0.3, 1, 2, 3, 100, 360, 1e6].map(niceStep), [5e-6, 0.002, 0.005, 0.01, 0.02, 0.5, 2, 5000]);
});

test("other types", () => {
  assert.deepEqual(about({ type: "string" }, "kind", "long"), ["text", true]);
  assert.deepEqual(about({ type: "string", minLength: 1, maxLength: 20 }, "kind", "long", "minLength", "maxLength"), [
    "text",
    false,
    1,
    20,
  ]);
  assert.deepEqual(about({ type: "boolean", default: true }, "kind", "initial"), ["checkbox", true]);
  assert.deepEqual(about({ enum: ["a", "b"] }, "kind", "choices"), ["select", ["a", "b"]]);
  assert.deepEqual(about({ const: 3 }, "kind", "choices"), ["select", [3]]);
  for (const type of ["array", "object"]) assert.deepEqual(about({ type }, "kind"), ["json"]);
  assert.deepEqual(about({}, "kind"), ["json"]);
  assert.deepEqual(about({ anyOf: [{ type: "integer" }, { type: "string" }] }, "kind", "nullable"), ["json", false]);
});

test("a schema that is true or false has no control of its own", () => {
  const read = (property: JsonSchema | boolean): string => readField("some_field", property).kind;
  assert.deepEqual([read(true), read(false), read({ anyOf: [true, { type: "null" }] })], ["json", "json", "json"]);
  const { actions } = readCommands([{ name: "act", schema: { properties: { anything: true } } }]);
  assert.deepEqual(actions[0]?.fields, [{ ...readField("anything", {}), title: "Anything" }]);
});

test("null is an addition to the type, however it is written", () => {
  const nullable = { anyOf: [{ type: "integer", minimum: 0, maximum: 2, title: "T" }, { type: "null" }], default: null };
  assert.deepEqual(about(nullable, "kind", "nullable", "initial", "title", "maximum"), ["slider", true, null, "T", 2]);
  assert.deepEqual(about({ enum: [null, 1, 2] }, "kind", "nullable", "choices"), ["select", true, [1, 2]]);
  assert.deepEqual(about({ type: ["string", "null"] }, "kind", "nullable"), ["text", true]);
  assert.deepEqual(about({ type: "string" }, "nullable", "initial"), [false, undefined]);
});

test("a reference is followed, and keys next to it override its target", () => {
  const root = { $defs: { Mode: { enum: ["a", "b"], title: "Mode", description: "how" } } };
  const field = read({ $ref: "#/$defs/Mode", default: "b", description: "which" }, { root });
  assert.deepEqual([field.kind, field.title, field.description, field.initial], ["select", "Mode", "which", "b"]);
  assert.equal(read({ anyOf: [{ $ref: "#/$defs/Mode" }, { type: "null" }] }, { root }).kind, "select");
  assert.equal(read({ $ref: "#/$defs/Nowhere" }, { root }).kind, "json");
});

test("commands are settings, keys or actions", () => {
  const command = (name: string, properties: JsonSchema = {}, required: readonly string[] = []): CommandDescription => ({
    name,
    schema: { type: "object", properties, required },
  });
  const down = { down: { type: "boolean" } };
  const { settings, keys, actions } = readCommands([
    command("set_x", { x: { type: "number" } }),
    command("set_both", { x: {}, y: {} }),
    command("reset"),
    command("key_w"),
    command("key_a", down, ["down"]),
    command("key_b", { down: { type: "number" } }),
    command("key_c", { how: { type: "string" } }, ["how"]),
    { name: "bare" },
  ]);
  assert.deepEqual(
    settings.map(({ name }) => name),
    ["set_x"],
  );
  assert.deepEqual(
    keys.map(({ key, held }) => [key, held]),
    [
      ["w", false],
      ["a", true],
      ["b", false],
    ],
  );
  assert.deepEqual(
    actions.map(({ name }) => name),
    ["set_both", "reset", "key_c", "bare"],
  );
  assert.deepEqual(
    actions.map(({ title }) => title),
    ["Set both", "Reset", "Key c", "Bare"],
  );
});

test("keys are named by what is printed on them, then by their place", () => {
  assert.deepEqual(keyNames({ key: "w", code: "KeyW" }), ["w"]);
  assert.deepEqual(keyNames({ key: "W", code: "KeyW" }), ["w"]);
  assert.deepEqual(keyNames({ key: "z", code: "KeyW" }), ["z", "w"]);
  assert.deepEqual(keyNames({ key: "ц", code: "KeyW" }), ["ц", "w"]);
  assert.deepEqual(keyNames({ key: "!", code: "Digit1" }), ["!", "1"]);
  assert.deepEqual(keyNames({ key: " ", code: "Space" }), ["space"]);
  assert.deepEqual(keyNames({ key: "ArrowUp", code: "ArrowUp" }), ["up"]);
  assert.deepEqual(keyNames({ key: "Escape", code: "Escape" }), ["escape"]);
});

test("a field keeps the keys that it needs", () => {
  const taken = (tagName: string, key: string, type?: string): boolean => needsKey({ tagName, type }, { key });
  assert.ok(taken("TEXTAREA", "w") && taken("INPUT", "w", "text") && taken("INPUT", "1", "number") && taken("SELECT", "a"));
  assert.ok(taken("INPUT", "ArrowLeft", "range") && taken("BUTTON", " ") && taken("INPUT", " ", "checkbox"));
  assert.ok(!taken("INPUT", "w", "range") && !taken("BUTTON", "w") && !taken("BODY", " ") && !taken("INPUT", "w", "checkbox"));
  assert.ok(taken("INPUT", " ", "file") && !taken("INPUT", "w", "file"));
});

test("one value in flight, then the newest", async () => {
  const sent: number[] = [];
  let answer = (): void => {};
  const sender = new Coalescer(
    (value: number) =>
      new Promise<void>((resolve) => {
        sent.push(value);
        answer = resolve;
      }),
  );
  for (const value of [1, 2, 3]) sender.push(value);
  assert.deepEqual([sent, sender.busy, sender.waiting], [[1], true, true]);
  answer();
  await new Promise(setImmediate);
  assert.deepEqual([sent, sender.busy, sender.waiting], [[1, 3], true, false]);
  answer();
  await new Promise(setImmediate);
  assert.deepEqual([sent, sender.busy], [[1, 3], false]);
  sender.push(4);
  assert.deepEqual(sent, [1, 3, 4]);
});

test("edges all go at once, after the value that waited, and values between them wait for values only", async () => {
  const sent: (string | number)[] = [];
  const answers: (() => void)[] = [];
  const sender = new Coalescer(
    (value: string | number) =>
      new Promise<void>((resolve) => {
        sent.push(value);
        answers.push(resolve);
      }),
  );
  const answer = async (): Promise<void> => {
    answers.shift()?.();
    await new Promise(setImmediate);
  };
  for (const value of ["down", "up", "down"]) void sender.sendNow(value);
  assert.deepEqual([sent, sender.busy, sender.waiting], [["down", "up", "down"], true, false]);
  for (const value of [1, 2, 3]) sender.push(value);
  assert.deepEqual(sent.slice(3), [1]);
  void sender.sendNow("up");
  assert.deepEqual(sent.slice(4), [3, "up"]); // 2 was superseded
  sender.push(4);
  sender.discardWaiting();
  for (let i = 0; i < 6; i++) {
    assert.ok(sender.busy);
    await answer();
  }
  assert.deepEqual([sent.length, sender.busy, answers], [6, false, []]);
});

const FRAME = { ptsUs: 0 };

test("rate and jitter", () => {
  const statistics = new Statistics();
  assert.deepEqual([statistics.snapshot(0).fps, statistics.snapshot(0).jitter], [null, null]);
  [0, 40, 80, 120].forEach((time) => statistics.shown(FRAME, time));
  assert.deepEqual([statistics.snapshot(120).fps, statistics.snapshot(120).jitter], [25, 0]);
  statistics.shown(FRAME, 200);
  assert.equal(statistics.snapshot(200).jitter?.toFixed(3), "17.321");
  assert.equal(statistics.snapshot(4000).fps, null);
  [10_000, 10_010, 10_020].forEach((time) => statistics.shown(FRAME, time));
  assert.deepEqual([statistics.snapshot(10_020).fps, statistics.snapshot(10_020).jitter], [100, 0]);
});

test("jitter looks at the last 120 pictures only", () => {
  const statistics = new Statistics();
  statistics.shown(FRAME, 0);
  for (let i = 0; i < 120; i++) statistics.shown(FRAME, 1000 + 10 * i);
  assert.equal(statistics.snapshot(2190).jitter, 0);
});

test("latency is from sending to the first picture made with it", () => {
  const latency = new Latency();
  const shown = (command: number | null, now: number): void => latency.shown({ seq: 0, command, meta: null }, now);
  latency.sent(1, 100);
  shown(null, 110);
  assert.equal(latency.recent(), null);
  latency.sent(2, 120);
  latency.sent(3, 130);
  latency.refused(3);
  latency.sent(4, 150);
  shown(3, 160);
  assert.deepEqual(latency.recent(), { last: 40, p50: 50 });
  shown(3, 170);
  assert.equal(latency.recent()?.last, 40);
  shown(9, 180);
  assert.deepEqual(latency.recent(), { last: 30, p50: 40 });
});

test("a command whose picture a pause keeps back is not measured", () => {
  const latency = new Latency();
  latency.sent(1, 100);
  latency.forget();
  latency.shown({ seq: 0, command: 1, meta: null }, 90_000);
  assert.equal(latency.recent(), null);
});

test("commands that no picture shows do not fill the memory", () => {
  const latency = new Latency();
  for (let id = 1; id <= 257; id++) latency.sent(id, 0);
  latency.shown({ seq: 0, command: 1, meta: null }, 10);
  assert.equal(latency.recent(), null); // the oldest one is forgotten
  latency.shown({ seq: 1, command: 2, meta: null }, 20);
  assert.equal(latency.recent()?.last, 20);
});

test("drops are counted by place", () => {
  const statistics = new Statistics();
  for (const seq of [5, 6, 9]) statistics.received({ seq });
  statistics.skipped();
  assert.deepEqual([statistics.snapshot(0).gaps, statistics.snapshot(0).skipped], [2, 1]);
});

test("waits double from half a second to eight, a quarter more or less", () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 9].map((attempt) => backoff(attempt, () => 0.5)),
    [500, 1000, 2000, 4000, 8000, 8000],
  );
  assert.deepEqual([backoff(0, () => 0), backoff(9, () => 1)], [375, 10_000]);
});

test("the status of a live session says what is missing", () => {
  const every = (ms: number, n = 5): number[] => Array.from({ length: n }, (_, i) => i * ms);
  const words = (times: number[], after: number, silence: number | null = after, late = null as { what: string; since: number } | null) =>
    stallOf(times, () => silence, late, (times.at(-1) ?? 0) + after);
  const none = { words: "no pictures for", since: 132 };
  assert.equal(words(every(33), 2900), null);
  assert.deepEqual(words(every(33), 3000), none);
  assert.deepEqual(words(every(33), 60_000), none);
  assert.equal(words(every(33), 60_000, 2900), null, "a beat was heard: the link is good, and the model has nothing to show");
  assert.equal(words(every(33, 4), 3000), null, "no stream yet");
  assert.equal(words(every(2000), 60_000), null, "answers to what the user does");
  assert.equal(words([], 60_000), null);
  const late = { what: "step 7 has run", since: 5 };
  assert.deepEqual(words(every(33), 9000, 0, late), { words: "the model is busy for", since: 5 });
});

test("an end is explained", () => {
  const end = (reason: string | null, message = ""): string => describeEnd({ reason, message });
  assert.equal(end("too_slow"), "The connection was too slow for the pictures.");
  assert.equal(end("model_error", "ValueError: x"), "The model failed. ValueError: x");
  assert.equal(end("model_error"), "The model failed.");
  assert.equal(end("something_new"), "The session ended: something_new.");
  assert.equal(end(null), "The connection was lost.");
});

test("what is for whoever runs the server is behind the details", async () => {
  const ended = new SessionEnded("model_error", 4011, "The model failed.");
  const failed = { final: false, kind: "failed", text: "The model failed.", note: STRINGS.tell };
  assert.deepEqual(await explain("http://host/", {}, ended), { ...failed, details: "" }, "a visitor's page");
  assert.deepEqual(await explain("http://127.0.0.1:8000/", {}, ended), { ...failed, details: STRINGS.hidden });
});

test("a refusal that is no fault of the user has plain words", () => {
  assert.equal(wordsOf("internal_error"), "That did not work: the model made a mistake.");
  assert.equal(wordsOf("invalid_command"), null);
});

test("the page asks /health why a WebSocket was refused", async () => {
  const asked: string[] = [];
  const ask = (status: number, body: string, model?: string, role?: Role): Promise<Diagnosis> =>
    diagnose("http://host/at/?x", { model, role }, async (url) => {
      asked.push(url.href);
      return new Response(body, { status });
    });
  assert.deepEqual(await ask(200, '{"model": "m"}'), { final: false, text: "Server not ready or busy." });
  assert.deepEqual(asked, ["http://host/at/health"]);
  assert.deepEqual(await ask(503, '{"reason": "loading"}'), { final: false, text: "Server not ready or busy: loading." });
  const behindProxy = "A proxy in front of the server answers 502.";
  assert.deepEqual(await ask(502, "<html>"), { final: false, kind: "lost", text: behindProxy });
  assert.equal((await ask(200, '{"model": "m"}', "other")).final, true);
  assert.equal((await ask(200, '{"model": "m"}', "m")).final, false);
  assert.deepEqual(await ask(503, '{"phase": "draining"}'), { final: false, text: "Server not ready or busy: draining." });
  const progress = { fraction: 0.5, text: "weights" };
  const loading = await ask(503, JSON.stringify({ phase: "loading", model: "m", progress }));
  assert.deepEqual(loading, { final: false, text: "The model is loading.", loading: progress });
  const silent = await ask(503, '{"phase": "loading", "model": "m"}');
  assert.deepEqual(silent.loading, { fraction: null, text: "" });
  const failed = await ask(503, '{"phase": "failed", "model": "m", "reason": "no memory"}');
  assert.deepEqual(failed, { final: false, kind: "failed", text: "The model failed: no memory.", note: STRINGS.tell });
  assert.equal((await ask(200, '{"sessions": 0}', "", "viewer")).text, "There is no session to watch yet.");
  assert.equal((await ask(200, '{"sessions": 1}', "", "viewer")).text, "Server not ready or busy.");
  const over = { final: true, kind: "viewing", linkOver: true, text: "The session you watched has ended." };
  for (const sessions of [0, 1]) {
    const health = new Response(JSON.stringify({ status: "ok", model: "m", sessions }));
    assert.deepEqual(await diagnose("http://host/", { role: "viewer", token: "of a session" }, async () => health), over);
  }
  const gone = await diagnose("http://host/", {}, () => Promise.reject(new TypeError("failed")));
  assert.deepEqual(gone, { final: false, kind: "lost", text: "The server cannot be reached." });
});

test("without a valid token the page learns why, and that a token is needed", async () => {
  const sent: [string, unknown][] = [];
  const ask = (health: object, [status, line]: [number, string], wishes: Wishes): Promise<Diagnosis> =>
    diagnose("http://host/at/", wishes, async (url, { headers }) => {
      sent.push([url.pathname, headers]);
      return url.pathname.endsWith("health") ? new Response(JSON.stringify(health)) : new Response(line, { status });
    });
  const little = { status: "ok", phase: "ready" };
  assert.deepEqual(await ask(little, [401, "no token\n"], {}), {
    final: true,
    kind: "locked",
    tokenWanted: true,
    text: "This server wants a token.",
  });
  assert.deepEqual(sent, [
    ["/at/health", {}],
    ["/at/schema", {}],
  ]);
  sent.length = 0;
  assert.deepEqual(await ask(little, [401, "it is used\n"], { token: "t" }), {
    final: true,
    kind: "locked",
    tokenWanted: true,
    text: "Not let in: it is used.",
  });
  assert.deepEqual(
    sent.map(([, headers]) => headers),
    [{ Authorization: "Bearer t" }, { Authorization: "Bearer t" }],
  );
  const watching = { ...little, model: "m", role: "viewer", sessions: 1 };
  assert.match((await ask(watching, [200, "{}"], { token: "t" })).text, /^This token can only watch/);
  assert.equal((await ask(watching, [200, "{}"], { token: "t", role: "viewer" })).final, false);
  const refused = (watched: boolean): Promise<Diagnosis> => ask(little, [401, "unknown\n"], { token: "t", role: "viewer", watched });
  assert.equal((await refused(false)).text, "Not let in: unknown.");
  assert.equal((await refused(true)).text, "The session you watched has ended.");
});

test("a token that no header can carry is judged by the server too, and no token is in an address", async () => {
  const asked: [string, string | null][] = [];
  const told = await diagnose("http://host/at/", { token: "clé\u20ac" }, async (url, { headers }) => {
    asked.push([url.href, new Headers(headers).get("Authorization")]); // as `fetch`, it takes no character above U+00FF
    return url.pathname.endsWith("health") ? new Response("{}") : new Response("not one that this server knows\n", { status: 401 });
  });
  assert.deepEqual(told, { final: true, kind: "locked", tokenWanted: true, text: "Not let in: not one that this server knows." });
  assert.deepEqual(asked, [
    ["http://host/at/health", "Bearer cl??"],
    ["http://host/at/schema", "Bearer cl??"],
  ]);
});

test("a server that has let the token in is not asked about it, because a proxy may have taken it from the header", async () => {
  const ask = (health: object, letIn: boolean): Promise<Diagnosis> =>
    diagnose("http://host/", { token: "t", letIn }, async (url) =>
      url.pathname.endsWith("health") ? new Response(JSON.stringify(health), { status: 503 }) : new Response("no token", { status: 401 }),
    );
  const loading = { final: false, text: "The model is loading.", loading: { fraction: null, text: "" } };
  assert.deepEqual(await ask({ phase: "loading" }, true), loading);
  assert.equal((await ask({ phase: "loading" }, false)).text, "Not let in: no token.");
});

test("a link that breaks while the server says why is a server that cannot be reached", async () => {
  const broken = new ReadableStream({ start: (body) => body.error(new TypeError("it broke")) });
  const told = await diagnose("http://host/", {}, async (url) =>
    url.pathname.endsWith("health") ? new Response("{}") : new Response(broken, { status: 401 }),
  );
  assert.deepEqual(told, { final: false, kind: "lost", text: "The server cannot be reached." });
});

test("a server that takes the question and never answers cannot be reached", async (t) => {
  const patience = new AbortController();
  const waits = t.mock.method(AbortSignal, "timeout", () => patience.signal);
  const silent = (_url: URL, { signal }: RequestInit): Promise<Response> =>
    new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const told = diagnose("http://host/", {}, silent);
  const introduction = askIntroduction("http://host/", "schema", null, silent);
  patience.abort();
  assert.deepEqual(await told, { final: false, kind: "lost", text: "The server cannot be reached." });
  assert.equal(await introduction, null);
  assert.deepEqual(
    waits.mock.calls.map(({ arguments: [milliseconds] }) => milliseconds),
    [10_000, 10_000],
  );
});

test("a token is taken out of the address and kept for the tab", () => {
  const tab = (href: string, kept = new Map<string, string>()): { access: AccessToken; shown: unknown[][]; kept: Map<string, string> } => {
    const storage = {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => {
        kept.set(key, value);
      },
      removeItem: (key: string) => {
        kept.delete(key);
      },
    };
    const shown: unknown[][] = [];
    const access = new AccessToken({
      location: { href },
      history: {
        state: 1,
        replaceState: (...what) => {
          shown.push(what);
        },
      },
      storage: () => storage,
    });
    return { access, shown, kept };
  };
  for (const href of ["http://h/at/?role=viewer#token=a%26b", "http://h/at/?token=a%26b&role=viewer"]) {
    const { access, shown, kept } = tab(href);
    assert.equal(access.token, "a&b");
    assert.deepEqual(shown, [[1, "", "http://h/at/?role=viewer"]]);
    assert.equal(tab("http://h/at/?role=viewer", kept).access.token, "a&b"); // loaded anew
    assert.equal(tab("http://h/at/", kept).access.token, null); // what could watch is not shown for more
    access.set(null);
    assert.equal(tab("http://h/at/?role=viewer", kept).access.token, null);
  }
  {
    const { access, shown, kept } = tab("http://h/?model=a#fork=f%261");
    assert.deepEqual([access.fork, access.token], ["f&1", null]);
    assert.deepEqual(shown, [[1, "", "http://h/?model=a"]]);
    assert.equal(kept.size, 0);
    assert.equal(tab("http://h/?model=a", kept).access.fork, undefined); // loaded anew
    const both = tab("http://h/#token=t&fork=f&s=1");
    assert.deepEqual([both.access.fork, both.access.token, both.shown], ["f", "t", [[1, "", "http://h/#s=1"]]]);
  }
  const { access, shown } = tab("http://h/#top");
  assert.deepEqual([access.token, shown], [null, []]);
  const forbidden = () => {
    throw new DOMException("no", "SecurityError");
  };
  const bare = new AccessToken({
    location: { href: "http://h/#token=t" },
    history: { state: null, replaceState() {} },
    storage: forbidden,
  });
  assert.equal(bare.token, "t");
});

test("a session without a picture shows what it may wait for", () => {
  assert.equal(describeWait(0), "The model is warming up.");
  assert.equal(describeWait(9, { commands: true }), "The model is warming up.");
  assert.equal(describeWait(10, { commands: true }), "The model may be waiting for a setting or an action of yours.");
  assert.equal(describeWait(10), "The model is warming up.");
  assert.equal(describeWait(3, { unstarted: ["camera", "microphone"] }), "Turn on camera and microphone to begin.");
  assert.equal(describeWait(30, { unstarted: ["microphone"], commands: true }), "Turn on the microphone to begin.");
  assert.equal(describeWait(99, { viewing: true, unstarted: ["camera"] }), "The session that you watch has shown no picture yet.");
});

test("a required argument has the value that its slider shows: the middle", () => {
  const place = { type: "number", minimum: 0, maximum: 1 };
  const properties = {
    x: place,
    steps: { type: "integer", minimum: 1, maximum: 4 },
    at: { ...place, default: 0.2 },
    wide: place,
    free: { type: "number" },
  };
  const {
    actions: [drop],
  } = readCommands([{ name: "drop", schema: { properties, required: ["x", "steps", "at", "free"] } }]);
  assert.deepEqual(
    drop?.fields.map(({ initial }) => initial),
    [0.5, 3, 0.2, undefined, undefined],
  );
  const {
    settings: [setting],
  } = readCommands([{ name: "set_x", schema: { properties: { x: place }, required: ["x"] } }]);
  assert.ok(setting);
  assert.equal(setting.field.initial, undefined); // what the model has is not known
});
