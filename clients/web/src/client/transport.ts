/** Pause, step and restart of the session's model. */
import type { TransportAction } from "../wire/messages.ts";
import type { Session } from "../wire/protocol.ts";
import type { Arguments } from "./commands.ts";
import type { Transport } from "./types.ts";

/** One for all, for whoever compares it. */
export const NOTHING: readonly never[] = Object.freeze([]);

export class ModelTransport implements Transport {
  #session: () => Session | null;
  #send: (name: string, args: Arguments) => Promise<unknown>;

  constructor(session: () => Session | null, send: (name: string, args: Arguments) => Promise<unknown>) {
    this.#session = session;
    this.#send = send;
  }

  get allowed(): readonly TransportAction[] {
    return this.#session()?.welcome?.transport ?? NOTHING;
  }

  get paused(): boolean {
    return this.#session()?.paused ?? false;
  }

  async pause(): Promise<void> {
    await this.#send("reactor.pause", { paused: true });
  }

  async resume(): Promise<void> {
    await this.#send("reactor.pause", { paused: false });
  }

  async step(steps = 1): Promise<void> {
    await this.#send("reactor.step", { steps });
  }

  async restart({ state = "kept" }: { readonly state?: "kept" | "fresh" } = {}): Promise<void> {
    await this.#send("reactor.restart", { state });
  }
}
