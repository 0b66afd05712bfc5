/** `client.worlds` against a scripted server: rewind, undo, saved worlds, forks, and what hands hold afterwards. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { handsNow } from "../src/client/hands-again.ts";
import { type ConnectionRefused, connect, type WorldChange } from "../src/index.ts";
import { connect as connectSession } from "../src/session.ts";
import { type ScriptedConnection, scriptedServer } from "../src/testing.ts";

const MOMENT = { step: 12, age: 1.3, bytes: 100, picture: false };
const DOWN = { properties: { down: { type: "boolean" } }, required: ["down"] };
const COMMANDS = [
  { name: "jump", schema: {} },
  { name: "key_a", schema: DOWN },
  { name: "key_w", schema: DOWN },
  { name: "gamepad_axes", schema: { properties: { left_x: { type: "number", default: 0 }, left_y: { type: "number", default: 0 } } } },
  { name: "set_speed", schema: { properties: { speed: { type: "number" } }, required: ["speed"] } },
];

async function begin(role: "control" | "viewer" = "control", open: typeof connect | typeof connectSession = connect) {
  const server = scriptedServer({ commands: COMMANDS });
  const client = open("http://model.test/", { WebSocket: server.WebSocket, role });
  const connection = await server.connection();
  connection.welcome({ role, resume_token: "r", worlds: { may: role === "viewer" ? [] : ["rewind"] } });
  await client.ready;
  return { server, client, connection };
}

const WORLD = { id: "w1", name: "the maze", step: 12, age: 1.3, bytes: 100, saved_at: 1e9, expires: 1e9 + 60 };

/** Whether it is settled, now that all that waits for nothing else has run. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  const end = (): void => {
    done = true;
  };
  promise.then(end, end);
  await new Promise(setImmediate);
  return done;
}

/** The next commands, acknowledged. */
async function next(connection: ScriptedConnection, count: number, reply: unknown = null): Promise<unknown[]> {
  const sent = [];
  for (let i = 0; i < count; i += 1) {
    const { type, data, id } = await connection.next();
    connection.ack(id as number, reply);
    sent.push([type, data]);
  }
  return sent;
}

for (const [kind, open] of [["client", connect] as const, ["client without tracks", connectSession] as const])
  test(`a ${kind} says that it understands worlds, and goes back and forth`, async () => {
    const { client, connection } = await begin("control", open);
    const { worlds } = client;
    assert.equal(connection.url.searchParams.get("worlds"), "1");
    assert.deepEqual([worlds.may, worlds.lasting], [["rewind"], false]);
    const calls = [worlds.rewind({ step: 12 }), worlds.rewind({ steps: 3 }), worlds.rewind({ seconds: 5 }), worlds.undo()];
    assert.deepEqual(await next(connection, 4, { moment: MOMENT }), [
      ["reactor.rewind", { step: 12 }],
      ["reactor.rewind", { steps: 3 }],
      ["reactor.rewind", { seconds: 5 }],
      ["reactor.rewind", { undo: true }],
    ]);
    assert.deepEqual(await Promise.all(calls), [MOMENT, MOMENT, MOMENT, MOMENT]);
    const refused = worlds.undo();
    connection.error((await connection.next()).id as number, "no_moment", "there is nothing to undo");
    await assert.rejects(refused, { code: "no_moment" });
    await client.close();
    assert.deepEqual(worlds.may, []);
  });

for (const [kind, open] of [["client", connect] as const, ["client without tracks", connectSession] as const])
  test(`a ${kind} saves a world, restores it and forgets it`, async () => {
    const { client, connection } = await begin("control", open);
    const { worlds } = client;
    const saving = worlds.save("the maze");
    assert.deepEqual(await next(connection, 1, { world: WORLD }), [["reactor.save", { name: "the maze" }]]);
    assert.equal(await settled(saving), false); // it is captured, and not in the store
    connection.say("reactor.saved", { world: "w1" });
    assert.deepEqual(await saving, WORLD);
    const [older, restored, listed, forgotten] = [worlds.save("", { step: 7 }), worlds.restore("w1"), worlds.list(), worlds.forget("w1")];
    assert.deepEqual(await next(connection, 1, { world: WORLD }), [["reactor.save", { name: "", step: 7 }]]);
    connection.say("reactor.saved", { world: "w1" }); // at once after its answer
    assert.deepEqual(await older, WORLD);
    const reply = { moment: MOMENT, warnings: ["numpy was 2.1 and is 2.2"] };
    assert.deepEqual(await next(connection, 1, reply), [["reactor.restore", { world: "w1" }]]);
    assert.deepEqual(await restored, reply);
    const list = { moments: [MOMENT], worlds: [WORLD], bytes: 100, most: 200, undo: null };
    assert.deepEqual(await next(connection, 1, list), [["reactor.worlds", {}]]);
    assert.deepEqual(await listed, list);
    assert.deepEqual(await next(connection, 1, {}), [["reactor.forget", { world: "w1" }]]);
    assert.equal(await forgotten, undefined);
    await client.close();
  });

test("a save is refused by the model, by the store, or by the end of its session", async () => {
  const { client, connection } = await begin();
  const { worlds } = client;
  connection.say("reactor.saved", { world: "w0", code: "too_big", message: "of the page that began this session" });
  const refused = worlds.save();
  connection.error((await connection.next()).id as number, "too_many", "forget one");
  await assert.rejects(refused, { code: "too_many", message: "forget one", command: "reactor.save", applied: false });
  const failed = worlds.save();
  await next(connection, 1, { world: WORLD });
  connection.say("reactor.saved", { world: "w1", code: "store_failed", message: "the world cannot be written: no space" });
  await assert.rejects(failed, { code: "store_failed", message: "the world cannot be written: no space" });
  const [foreign, unknown] = [worlds.restore("w2"), worlds.forget("w3")];
  connection.error((await connection.next()).id as number, "foreign_world", "its weights are others");
  connection.error((await connection.next()).id as number, "no_such_world", "there is none");
  await assert.rejects(foreign, { code: "foreign_world" });
  await assert.rejects(unknown, { code: "no_such_world" });
  const ended = worlds.save();
  await next(connection, 1, { world: WORLD });
  connection.bye("done");
  await assert.rejects(ended, { code: "ended", applied: "unknown" });
});

test("a save goes on while the session resumes, and is lost with the messages that are", async () => {
  const { server, client, connection } = await begin();
  const saving = client.worlds.save();
  await next(connection, 1, { world: WORLD });
  connection.lose();
  const second = await server.connection();
  second.welcome({ resumed: true, received: 1, missed: 0, resume_token: "r" });
  assert.equal(await settled(saving), false);
  second.say("reactor.saved", { world: "w1" });
  assert.deepEqual(await saving, WORLD);
  const lost = client.worlds.save();
  await next(second, 1, { world: WORLD });
  second.lose();
  (await server.connection()).welcome({ resumed: true, received: 2, missed: 3, resume_token: "r" });
  await assert.rejects(lost, { code: "answer_lost", applied: "unknown" });
  await client.close();
});

test("what is sent and heard is that of protocol-vectors.json", async () => {
  const file = new URL("../../../docs/reference/protocol-vectors.json", import.meta.url);
  const { client_texts: sent, server_texts: said } = JSON.parse(readFileSync(file, "utf8"));
  const one = (vectors: { exact: { name: string; data: object }[] }, name: string) =>
    vectors.exact.find((each) => each.name === name)?.data;
  const { client, connection } = await begin();
  const { worlds } = client;
  const world = { ...WORLD, id: "5b1fd3c86c1a4a67a8e0c9f27d41be03" };
  const saving = worlds.save("the maze");
  assert.deepEqual(await next(connection, 1, { world }), [["reactor.save", one(sent, "save")]]);
  connection.say("reactor.saved", one(said, "saved"));
  const { id } = await saving;
  const forking = worlds.fork({ step: 64 });
  assert.deepEqual(await next(connection, 1, FORK), [["reactor.fork", one(sent, "fork")]]);
  connection.say("reactor.saved", { world: FORK.fork });
  await forking;
  const calls = [worlds.restore(id), worlds.forget(id), worlds.rewind({ seconds: 2.5 }), worlds.list()];
  assert.deepEqual(await next(connection, 4, { moment: MOMENT }), [
    ["reactor.restore", one(sent, "restore")],
    ["reactor.forget", one(sent, "forget")],
    ["reactor.rewind", one(sent, "rewind")],
    ["reactor.worlds", one(sent, "worlds")],
  ]);
  await Promise.all(calls);
  const heard: WorldChange[] = [];
  client.on("moment", (change) => heard.push(change));
  connection.say("reactor.moment", one(said, "moment"));
  assert.deepEqual(heard, [one(said, "moment")]);
  await client.close();
});

test("after a moment the model is told what hands hold now, releases first", async () => {
  const { client, connection } = await begin();
  const heard: WorldChange[] = [];
  client.on("moment", (change) => heard.push(change));
  const commands = [client.command("key_a", { down: true }), client.command("jump"), client.command("gamepad_axes", { left_x: 0.5 })];
  await next(connection, 3);
  await Promise.all(commands);
  connection.say("reactor.moment", { step: 40, to: MOMENT, why: "rewind" });
  assert.deepEqual(heard, [{ step: 40, to: MOMENT, why: "rewind" }]);
  assert.deepEqual(await next(connection, 3), [
    ["key_w", { down: false }], // which this client never pressed
    ["key_a", { down: true }],
    ["gamepad_axes", { left_x: 0.5 }],
  ]);
  const released = client.command("key_a", { down: false });
  await next(connection, 1);
  await released;
  connection.say("reactor.moment", { step: 50, to: MOMENT, why: "rewind" });
  assert.deepEqual(await next(connection, 3), [
    ["key_a", { down: false }],
    ["key_w", { down: false }],
    ["gamepad_axes", { left_x: 0.5 }],
  ]);
  await client.close();
});

test("the moments are listed, and shown with the session's token", async () => {
  const server = scriptedServer({ commands: COMMANDS });
  const asked: string[] = [];
  const fetch = async (url: URL | RequestInfo): Promise<Response> => {
    asked.push(String(url));
    if (String(url).includes("/7.jpg")) return new Response("no picture\n", { status: 404, headers: { "reactor-refusal": "not_found" } });
    if (String(url).includes("/8.jpg")) return new Response("<html>", { status: 502 });
    return new Response(new Uint8Array([255, 216]), { headers: { "content-type": "image/jpeg" } });
  };
  const client = connect("http://model.test/deep/", { WebSocket: server.WebSocket, fetch });
  const connection = await server.connection();
  connection.welcome({ worlds: { may: ["rewind"], token: "t&1", lasting: true } });
  await client.ready;
  assert.equal(client.worlds.lasting, true);
  const list = { moments: [MOMENT], worlds: [], bytes: 1, most: 2, undo: null };
  const listed = client.worlds.list();
  assert.deepEqual(await next(connection, 1, list), [["reactor.worlds", {}]]);
  assert.deepEqual(await listed, list);
  const picture = await client.worlds.picture(12);
  assert.deepEqual([picture.type, picture.size], ["image/jpeg", 2]);
  await client.worlds.picture(13, { width: 320 });
  assert.deepEqual(asked, [
    "http://model.test/deep/moments/12.jpg?w=160&token=t%261",
    "http://model.test/deep/moments/13.jpg?w=320&token=t%261",
  ]);
  await assert.rejects(client.worlds.picture(7), { code: "no_moment", message: "no picture" });
  await assert.rejects(client.worlds.picture(8), { code: "refused" });
  await assert.rejects(client.worlds.picture(9, { signal: AbortSignal.abort() }), { name: "AbortError" });
  await client.close();
  await assert.rejects(client.worlds.picture(12), { code: "not_allowed" });
});

test("a viewer hears of a moment and sends nothing", async () => {
  const { client, connection } = await begin("viewer");
  let heard = 0;
  client.on("moment", () => {
    heard += 1;
  });
  connection.say("reactor.moment", { step: 40, to: MOMENT, why: "rewind" });
  assert.equal(heard, 1);
  const command = client.command("probe"); // the next that is sent
  assert.deepEqual(await next(connection, 1), [["probe", {}]]);
  await command;
  await client.close();
});

test("only what is held can be released", () => {
  const commands = [
    { name: "brush", schema: { properties: { down: { type: "boolean" }, size: { type: "number" } }, required: ["down", "size"] } },
    { name: "gamepad_a", schema: { properties: { value: { type: "number" } }, required: ["value"] } },
    { name: "gamepad_b", schema: {} },
    { name: "toggle", schema: { properties: { on: { type: "boolean" } } } },
  ];
  assert.deepEqual(handsNow(commands, new Map()), [["gamepad_a", { value: 0 }]]);
  const sent = new Map([["brush", { down: false, size: 2 }]]);
  assert.deepEqual(handsNow(commands, sent), [
    ["brush", { down: false, size: 2 }],
    ["gamepad_a", { value: 0 }],
  ]);
});

const FORK = { fork: "0af6c1d27e3b4859", expires: 1e9 + 86_400 };

for (const [kind, open] of [["client", connect] as const, ["client without tracks", connectSession] as const])
  test(`a ${kind} forks the world, and has the token when that is stored`, async () => {
    const { client, connection } = await begin("control", open);
    const { worlds } = client;
    const forking = worlds.fork();
    assert.deepEqual(await next(connection, 1, FORK), [["reactor.fork", {}]]);
    assert.equal(await settled(forking), false);
    connection.say("reactor.saved", { world: FORK.fork });
    assert.deepEqual(await forking, FORK);
    const failed = worlds.fork({ step: 7 });
    assert.deepEqual(await next(connection, 1, FORK), [["reactor.fork", { step: 7 }]]);
    connection.say("reactor.saved", { world: FORK.fork, code: "store_failed", message: "no space" });
    await assert.rejects(failed, { code: "store_failed", message: "no space", command: "reactor.fork" });
    const refused = worlds.fork({ world: "w1", seconds: 60 });
    const { data, id } = await connection.next();
    assert.deepEqual(data, { world: "w1", seconds: 60 });
    connection.error(id as number, "no_such_world", "there is none");
    await assert.rejects(refused, { code: "no_such_world" });
    await client.close();
  });

/** What a connection asks for. */
const asked = ({ url }: ScriptedConnection): (string | null)[] => ["fork", "world", "resume"].map((name) => url.searchParams.get(name));

/** The next connection, after as many waits of the client as it takes. */
async function nextTry(server: ReturnType<typeof scriptedServer>, client: { reconnect(): void }): Promise<ScriptedConnection> {
  await new Promise(setImmediate);
  client.reconnect(); // tries now
  return server.connection();
}

test("the first session alone begins at a fork: neither its resumption nor the session after it", async () => {
  const server = scriptedServer({ commands: COMMANDS });
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, fork: "f1", newSession: "after-loss" });
  const first = await server.connection();
  assert.deepEqual(asked(first), ["f1", null, null]);
  first.refuse(503, "full", null, "full"); // before a session began
  const second = await nextTry(server, client);
  assert.deepEqual(asked(second), ["f1", null, null]);
  second.welcome({ resume_token: "r" });
  await client.ready;
  second.lose();
  const resumed = await server.connection();
  assert.deepEqual(asked(resumed), [null, null, "r"]);
  resumed.welcome({ resumed: true, received: 0, missed: 0, resume_token: "r" });
  await new Promise(setImmediate);
  resumed.bye("model_error");
  assert.deepEqual(asked(await nextTry(server, client)), [null, null, null]);
  await client.close();
});

test("a saved world that cannot be had is final", async () => {
  const server = scriptedServer({ commands: COMMANDS });
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, world: "w1", newSession: "after-loss" });
  const tries = [];
  let done = false;
  void client.ended.then(() => {
    done = true;
  });
  while (!done && tries.length < 3) {
    const connection = await server.connection();
    tries.push(asked(connection));
    connection.refuse(404, "no_such_world: there is none", null, "no_world");
    await settled(client.ended);
  }
  assert.deepEqual(tries, [[null, "w1", null]]);
  const end = await client.ended;
  assert.deepEqual([end?.code, (end as ConnectionRefused).refusal, end?.message], ["refused", "no_world", "no_such_world: there is none"]);
});

test("a reloaded page goes on with the session that began at its fork, and leaves a session of before it", async () => {
  const server = scriptedServer({ commands: COMMANDS });
  let text: string | null = null;
  const memory = {
    load: () => text,
    save(given: string | null) {
      text = given;
    },
  };
  /** A page that is opened, and goes away without a goodbye. */
  const open = async (fork?: string): Promise<ReturnType<typeof asked>> => {
    const client = connect("http://model.test/", { WebSocket: server.WebSocket, memory, ...(fork ? { fork } : {}) });
    const connection = await server.connection();
    connection.welcome({ resume_token: `r${fork ?? ""}`, resumed: connection.url.searchParams.has("resume"), received: 0, missed: 0 });
    await client.ready;
    const kept = text;
    await client.close();
    text = kept;
    return asked(connection);
  };
  assert.deepEqual(await open(), [null, null, null]);
  assert.deepEqual(await open("f1"), ["f1", null, null]);
  assert.deepEqual(await open("f1"), ["f1", null, "rf1"]);
  assert.deepEqual(await open(), [null, null, "rf1"]);
  assert.deepEqual(await open("f2"), ["f2", null, null]);
});
