/** One setting of the model: its value, and a way to set it that never has two values under way. */
import { CommandError } from "../wire/errors.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { Emitter } from "./emitter.ts";
import type { Setting } from "./types.ts";

interface Next {
  readonly value: unknown;
  readonly settled: Deferred<void>;
}

export class ModelSetting implements Setting<unknown> {
  #read: () => unknown;
  #send: (value: unknown) => Promise<unknown>;
  #changes = new Emitter<{ changed: undefined }>();
  #sending = false;
  #next: Next | null = null;
  /** What this client set last in this session; for a server that does not tell its values. */
  #applied: unknown = undefined;
  #error: CommandError | null = null;
  /** The model's value when it refused. */
  #atRefusal: unknown = undefined;

  /** `read` gives the model's value as the session, or the last one, knows it, `send` is fulfilled when a value is applied. */
  constructor(read: () => unknown, send: (value: unknown) => Promise<unknown>) {
    this.#read = read;
    this.#send = send;
  }

  get value(): unknown {
    const told = this.#read();
    return told === undefined ? this.#applied : told;
  }

  get pending(): boolean {
    return this.#sending;
  }

  get error(): CommandError | null {
    return this.#error;
  }

  set(value: unknown): Promise<void> {
    // A value that waits is replaced; who set it is answered with the newer one.
    this.#next = { value, settled: this.#next?.settled ?? deferred() };
    const { promise } = this.#next.settled;
    promise.catch(() => {}); // who does not look at the promise finds the refusal in `error`
    if (!this.#sending) void this.#run();
    return promise;
  }

  /** Calls `listener` when value, `pending` or `error` may have changed, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    return this.#changes.on("changed", listener);
  }

  /** A session has begun; what was set before belongs to another one. */
  begin(): void {
    this.#applied = undefined;
    this.end();
  }

  /** The session is over. Its value stays until another one begins, so that what shows it does not jump; a refusal was of this session. */
  end(): void {
    this.#error = null;
    this.changed();
  }

  /** The session has other values. A refusal is about a value that is replaced. */
  changed(): void {
    if (this.#error !== null && this.#read() !== this.#atRefusal) this.#error = null;
    this.#changes.emit("changed", undefined);
  }

  async #run(): Promise<void> {
    this.#sending = true;
    for (let next = this.#take(); next !== null; next = this.#take()) {
      this.changed();
      try {
        await this.#send(next.value);
        this.#applied = next.value;
        this.#error = null;
        next.settled.resolve();
      } catch (error) {
        if (error instanceof CommandError) [this.#error, this.#atRefusal] = [error, this.#read()];
        next.settled.reject(error);
        // The newest value was meant for the session that is over, not for the next one.
        if (error instanceof CommandError && error.code === "ended") this.#take()?.settled.reject(error);
      }
    }
    this.#sending = false;
    this.changed();
  }

  #take(): Next | null {
    const next = this.#next;
    this.#next = null;
    return next;
  }
}
