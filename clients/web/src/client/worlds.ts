/** The worlds of the session: back to an earlier moment, and what is saved and restored. */
import { CommandError } from "../wire/errors.ts";
import type { Moment, WorldAction, WorldInStore, WorldList } from "../wire/messages.ts";
import { pageOf, type Session } from "../wire/protocol.ts";
import type { Arguments } from "./commands.ts";
import { NOTHING } from "./transport.ts";
import type { RestoredWorld, RewindTo, WorldFork, Worlds } from "./types.ts";

export class ModelWorlds implements Worlds {
  #session: () => Session | null;
  #send: (name: string, args: Arguments) => Promise<{ readonly reply: unknown }>;
  #fetch: typeof globalThis.fetch | undefined;

  constructor(
    session: () => Session | null,
    send: (name: string, args: Arguments) => Promise<{ readonly reply: unknown }>,
    fetch: typeof globalThis.fetch | undefined,
  ) {
    this.#session = session;
    this.#send = send;
    this.#fetch = fetch;
  }

  get may(): readonly WorldAction[] {
    return this.#session()?.welcome?.worlds?.may ?? NOTHING;
  }

  get lasting(): boolean {
    return Boolean(this.#session()?.welcome?.worlds?.lasting);
  }

  async rewind(to: RewindTo | { readonly undo: true }): Promise<Moment> {
    return (await this.#ask<{ readonly moment: Moment }>("rewind", { ...to })).moment;
  }

  undo(): Promise<Moment> {
    return this.rewind({ undo: true });
  }

  list(): Promise<WorldList> {
    return this.#ask("worlds", {});
  }

  async picture(step: number, options: NonNullable<Parameters<Worlds["picture"]>[1]> = {}): Promise<Blob> {
    const session = this.#session();
    const { momentPicture } = await import("./moment-picture.ts");
    const refuse = (code: string, message: string): CommandError => new CommandError(code, message, "picture");
    const url = session && new URL(`moments/${step}.jpg`, pageOf(session.url));
    return momentPicture(url, session?.welcome?.worlds?.token, options, this.#fetch ?? globalThis.fetch, refuse);
  }

  async save(name = "", options: { readonly step?: number } = {}): Promise<WorldInStore> {
    return (await this.#ask<{ readonly world: WorldInStore }>("save", { name, ...options })).world;
  }

  restore(id: string): Promise<RestoredWorld> {
    return this.#ask("restore", { world: id });
  }

  async forget(id: string): Promise<void> {
    await this.#ask("forget", { world: id });
  }

  fork(options: Parameters<Worlds["fork"]>[0] = {}): Promise<WorldFork> {
    return this.#ask("fork", { ...options });
  }

  async #ask<Reply>(what: string, args: Arguments): Promise<Reply> {
    return (await this.#send(`reactor.${what}`, args)).reply as Reply;
  }
}
