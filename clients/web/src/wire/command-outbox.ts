/** The commands of a session that have no answer yet: each has a number, is sent once and in order, and is answered once. */
import { CommandError } from "./errors.ts";
import type { WorldSaved } from "./messages.ts";
import type { Applied } from "./session-events.ts";
import { OPEN } from "./socket.ts";

export const MAX_UNANSWERED = 1024;
// Commands that have waited for the session, or for its link, are sent so many at once, and then in each second: half of the server's
// default limit.
const CATCH_UP_RATE = 100;

interface Waiting {
  readonly command: string;
  /** What is sent. */
  readonly text: string;
  readonly resolve: (applied: Applied) => void;
  readonly reject: (error: CommandError) => void;
}

export class CommandOutbox {
  #socket: () => WebSocket | null;
  /** By their numbers in the session, which are their ids. */
  #unanswered = new Map<number, Waiting>();
  /** The newest save or fork that is applied; none if another page has begun the session, and saved. */
  #saving: { readonly id: number; readonly resolve: () => void } | undefined;
  #lastId = 0;
  #sentId = 0;
  /** How many may be sent now. */
  #room = Infinity;
  #catchingUp: ReturnType<typeof setTimeout> | undefined;

  /** `socket` gives the session's socket of now; without one, or with one that is not open, commands wait. */
  constructor(socket: () => WebSocket | null) {
    this.#socket = socket;
  }

  /** The number of the newest command; 0: there is none. */
  get lastId(): number {
    return this.#lastId;
  }

  /** Adds a command, which `flush` sends. Throws a CommandError if too many wait, and a TypeError for a value without a JSON form. */
  add(type: string, data: { readonly [argument: string]: unknown }): { readonly id: number; readonly answer: Promise<Applied> } {
    if (this.#unanswered.size >= MAX_UNANSWERED) throw new CommandError("busy", `${MAX_UNANSWERED} commands have no answer yet`, type);
    const id = this.#lastId + 1;
    const text = JSON.stringify({ type, data, id }); // throws for a value without a JSON form
    this.#lastId = id;
    const answer = new Promise<Applied>((resolve, reject) => this.#unanswered.set(id, { command: type, text, resolve, reject }));
    return { id, answer };
  }

  /** Sends what may be sent now, in order. A socket that is about to close takes nothing. */
  flush(): void {
    const socket = this.#socket();
    for (; socket?.readyState === OPEN && this.#room > 0 && this.#sentId < this.#lastId; this.#room--)
      socket.send((this.#unanswered.get(++this.#sentId) as Waiting).text);
  }

  /** Sends nothing until `catchUp`. */
  hold(): void {
    clearTimeout(this.#catchingUp);
    this.#room = 0;
  }

  /** Sends what waits, no faster than a server takes it. What is given meanwhile follows. */
  catchUp(): void {
    this.#room = CATCH_UP_RATE;
    this.flush();
    if (this.#sentId < this.#lastId) this.#catchingUp = setTimeout(() => this.catchUp(), 1000);
    else this.#room = Infinity;
  }

  /** Another page has begun the session, and sent so many commands. */
  continueFrom(received: number): void {
    this.#lastId = this.#sentId = received;
  }

  /** The session goes on: the server has so many commands, and the answers of those may be among the `missed` messages. */
  resume(received: number, missed: number): void {
    this.#sentId = received;
    if (missed === 0) return;
    for (const [id, { command, reject }] of this.#unanswered) {
      if (id > received) continue;
      this.#unanswered.delete(id);
      reject(new CommandError("answer_lost", `Whether it was applied is not known: ${missed} messages were lost.`, command, id, "unknown"));
    }
  }

  /** The answer of a save or a fork is passed on when its world is in the store: see `saved`. */
  applied(id: number, step: number, reply: unknown): void {
    const resolve = (): void => this.#take(id)?.resolve({ id, step, reply });
    if (/^reactor\.(save|fork)$/.test(this.#unanswered.get(id)?.command ?? "")) this.#saving = { id, resolve };
    else resolve();
  }

  /** The world of the save or fork that was applied last is in the store; with `code` it is not. A session has one under way. */
  saved(data: WorldSaved): void {
    if (data.code) this.refused(this.#saving?.id, data.code, data.message);
    else this.#saving?.resolve();
  }

  /** Returns whether the refusal answers a command. */
  refused(id: number | undefined, code: string, message: string): boolean {
    const waiting = id === undefined ? undefined : this.#take(id);
    waiting?.reject(new CommandError(code, message, waiting.command, id));
    return waiting !== undefined;
  }

  /** The session is over. */
  end(): void {
    clearTimeout(this.#catchingUp);
    for (const [id, { command, reject }] of this.#unanswered)
      reject(new CommandError("closed", "the connection ended", command, id, id > this.#sentId ? false : "unknown"));
    this.#unanswered.clear();
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#unanswered.get(id);
    this.#unanswered.delete(id);
    return waiting;
  }
}
