/** The worlds of the session: back to an earlier moment. */
import type { Moment, WorldAction } from "../wire/messages.ts";
import type { Session } from "../wire/protocol.ts";
import type { Arguments } from "./commands.ts";
import { NOTHING } from "./transport.ts";
import type { RewindTo, Worlds } from "./types.ts";

export class ModelWorlds implements Worlds {
  #session: () => Session | null;
  #send: (name: string, args: Arguments) => Promise<{ readonly reply: unknown }>;

  constructor(session: () => Session | null, send: (name: string, args: Arguments) => Promise<{ readonly reply: unknown }>) {
    this.#session = session;
    this.#send = send;
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
}
