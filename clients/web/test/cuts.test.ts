// A link that is cut again and again, at any message: no command is lost or applied twice, and no message is lost or heard twice.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Client, connect, type Packet } from "../src/index.ts";
import { type ScriptedConnection, scriptedServer } from "../src/testing.ts";

const CUTS = 50;
/** As many as a client sends at once after coming back: here no time passes, in which it would send the rest. */
const MOST_UNANSWERED = 100;

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

type Heard = readonly [listener: string, count: unknown];

/** A server that keeps its session: it applies commands, numbers what it says, and says again what a client has not heard. */
class KeptSession {
  readonly applied: unknown[] = [];
  readonly frames: number[] = [];
  /** Where the link was cut, in words. */
  readonly places = new Set<string>();
  cuts = 0;
  #log: ((connection: ScriptedConnection) => void)[] = [];
  #next = 0;
  #received = 0;
  #begun = false;
  #welcomed = false;
  #framed = false;
  #seq = 0;
  #link: ScriptedConnection | null = null;
  readonly #server = scriptedServer();
  readonly WebSocket = this.#server.WebSocket;

  /** A client has connected, or comes back. */
  async accept(): Promise<void> {
    if (this.#link !== null) return;
    this.#link = await this.#server.connection();
    this.#welcomed = this.#framed = false;
  }

  /** Whether the server has read and said all. */
  get idle(): boolean {
    return this.#welcomed && this.#link?.received.length === 0 && this.#next === this.#log.length;
  }

  /** The next message of the client arrives, and is applied if it is a command. */
  read(): void {
    const message = this.#link?.received.shift();
    if (message === undefined || message.type.startsWith("reactor.")) return;
    const { id, data } = message;
    const count = this.applied.push(data.number);
    assert.equal(id, ++this.#received);
    this.#log.push((connection) => connection.say("counted", { count }));
    this.#log.push((connection) => connection.ack(id as number, count));
  }

  /** The next message of the server arrives at the client. */
  say(): void {
    const link = this.#link as ScriptedConnection;
    const resuming = { resume_token: "r", resume_window: null };
    if (this.#welcomed) {
      const message = this.#log[this.#next];
      if (message === undefined) return;
      this.#next += 1;
      message(link);
    } else {
      if (this.#begun) link.welcome({ ...resuming, resumed: true, received: this.#received, missed: 0 });
      else link.welcome(resuming);
      this.#next = this.#begun ? Number(link.url.searchParams.get("after")) - 1 : 0; // the first welcome is number 1
      this.#begun = this.#welcomed = true;
    }
  }

  show(): void {
    if (!this.#welcomed) return;
    this.#framed = true;
    this.frames.push(this.#seq);
    this.#link?.frame({ seq: this.#seq++, payload: new Uint8Array([1]) });
  }

  /** What is under way in either direction is lost. */
  cut(): void {
    const link = this.#link;
    if (link === null || !this.#begun || this.cuts === CUTS) return;
    this.cuts += 1;
    if (!this.#welcomed) this.places.add("in a resume");
    else if (!this.#framed) this.places.add("between the welcome and the first frame");
    if (link.received.some(({ type }) => type === "add")) this.places.add("while a command is under way");
    if (this.#welcomed && this.#next < this.#log.length) this.places.add("between a command and its answer");
    link.lose();
    this.#link = null;
  }
}

async function live(t: TestContext, session: KeptSession, seed: number): Promise<void> {
  const random = generator(seed);
  const client: Client = connect("http://model.test/", { WebSocket: session.WebSocket });
  t.after(() => client.close());
  const heard: Heard[] = [];
  const states: string[] = [];
  let resumed = 0;
  client.on("state", ({ status }) => states.push(status));
  client.on("resumed", () => resumed++);
  client.on("message", ({ data }) => heard.push(["listener", data.count]));
  const loop = (async () => {
    for await (const { data } of client.messages()) heard.push(["loop", data.count]);
  })();
  const pictures: Packet[] = [];
  const watching = (async () => {
    for await (const packet of client.packets()) pictures.push(packet);
  })();
  const answers: Promise<unknown>[] = [];
  const give = (): void => {
    if (answers.length - session.applied.length === MOST_UNANSWERED) return;
    answers.push(client.command("add", { number: answers.length + 1 }).then(({ reply }) => reply));
  };
  while (session.cuts < CUTS || !session.idle) {
    await session.accept();
    const chance = random();
    if (chance < 0.25 && session.cuts < CUTS) give();
    else if (chance < 0.45) session.read();
    else if (chance < 0.75) session.say();
    else if (chance < 0.85) session.show();
    else session.cut();
    await settled();
  }
  const all = Array.from(answers, (_, i) => i + 1);
  assert.deepEqual(session.applied, all);
  assert.deepEqual(await Promise.all(answers), all);
  session.show(); // the picture goes on
  const comebacks = client.statistics().comebacks;
  await client.close();
  await Promise.all([loop, watching]);
  for (const listener of ["listener", "loop"])
    assert.deepEqual(
      heard.filter(([by]) => by === listener).map(([, count]) => count),
      all,
    );
  assert.deepEqual(
    pictures.map(({ seq }) => seq),
    session.frames,
  );
  // Each loss is told once, and so is each return.
  assert.equal(resumed, comebacks);
  assert.deepEqual(states, ["connecting", "live", ...Array(comebacks).fill(["resuming", "live"]).flat(), "ended"]);
}

test("a link that is cut 50 times at any message loses nothing and doubles nothing", async (t) => {
  t.mock.method(Math, "random", () => 0); // a client that waits before it comes back waits for no time
  const places = new Set<string>();
  for (let seed = 1; seed <= 10; seed++) {
    const session = new KeptSession();
    await t.test(`seed ${seed}`, (each) => live(each, session, seed));
    for (const place of session.places) places.add(place);
  }
  assert.deepEqual([...places].sort(), [
    "between a command and its answer",
    "between the welcome and the first frame",
    "in a resume",
    "while a command is under way",
  ]);
});
