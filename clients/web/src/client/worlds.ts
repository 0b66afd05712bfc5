/** The worlds of the session: back to an earlier moment. */
import { CommandError } from "../wire/errors.ts";
import type { Moment, WorldAction, WorldList } from "../wire/messages.ts";
import { pageOf, type Session } from "../wire/protocol.ts";
import type { Arguments } from "./commands.ts";
import { NOTHING } from "./transport.ts";
import type { RewindTo, Worlds } from "./types.ts";

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

  async rewind(to: RewindTo | { readonly undo: true }): Promise<Moment> {
    return ((await this.#send("reactor.rewind", { ...to })).reply as { readonly moment: Moment }).moment;
  }

  undo(): Promise<Moment> {
    return this.rewind({ undo: true });
  }

  async list(): Promise<WorldList> {
    return (await this.#send("reactor.worlds", {})).reply as WorldList;
  }

  async picture(step: number, options: NonNullable<Parameters<Worlds["picture"]>[1]> = {}): Promise<Blob> {
    const session = this.#session();
    const { momentPicture } = await import("./moment-picture.ts");
    const refuse = (code: string, message: string): CommandError => new CommandError(code, message, "picture");
    const url = session && new URL(`moments/${step}.jpg`, pageOf(session.url));
    return momentPicture(url, session?.welcome?.worlds?.token, options, this.#fetch ?? globalThis.fetch, refuse);
  }
}
