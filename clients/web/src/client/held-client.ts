/** A client that lives as long as somebody holds it, and one macrotask more. */
import { prepare } from "./client.ts";
import type { Client, ConnectOptions, GiveToken } from "./types.ts";

/** The clients without a holder that have not left yet, by their keys. */
const leaving = new Map<string, HeldClient>();

/**
 * Connects its client when the first holder comes, and closes it one macrotask after the last one has let go. A component that is
 * unmounted and mounted again in that time, which is what React's StrictMode and fast refresh do, keeps its session. Later the same
 * client connects again, for another session.
 */
export class HeldClient {
  readonly client: Client;
  /** Read at each connection. */
  token: string | GiveToken | undefined;
  #key: string;
  #holders = 0;
  #entered = false;
  #closing: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Connects nothing yet. Without `active` the client's state is "ended" until somebody holds it, else "connecting". */
  constructor(key: string, url: string | URL, options: ConnectOptions, active = true) {
    const held = this;
    this.#key = key;
    this.token = options.token;
    this.client = prepare(url, {
      ...options,
      get token() {
        return held.token;
      },
    });
    if (!active) void this.client.close();
  }

  /** The client with this key that is about to leave, or undefined. */
  static leaving(key: string): HeldClient | undefined {
    return leaving.get(key);
  }

  /** Returns the function that lets go. */
  hold(): () => void {
    this.#holders += 1;
    clearTimeout(this.#timer);
    this.#stay();
    if (!this.#entered) this.#enter();
    return () => {
      this.#holders -= 1;
      if (this.#holders > 0) return;
      leaving.set(this.#key, this);
      this.#timer = setTimeout(() => this.#leave());
    };
  }

  #enter(): void {
    this.#entered = true;
    if (this.#closing === null) this.client.reconnect();
  }

  /** Another client may be about to leave under the same key. */
  #stay(): void {
    if (leaving.get(this.#key) === this) leaving.delete(this.#key);
  }

  #leave(): void {
    this.#stay();
    this.#entered = false;
    this.#closing = this.client.close().then(() => {
      this.#closing = null;
      if (this.#entered) this.client.reconnect();
    });
  }
}
