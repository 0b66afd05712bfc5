/**
 * A command that is pressed and released: by a key, by a button of a gamepad, or by a button of the page. Each press and release names
 * its source. The command is held as long as at least one source holds it.
 *
 * A plain command is sent at each press, and again while it is held and the one before is answered. A command with a boolean
 * `down` is sent once with true and once with false. A command with a number `value` is sent with how far it is pressed, 0 to 1.
 * All presses and releases are sent at once and in order; of the values between two of them only the newest.
 */
import { Coalescer } from "../input/coalesce.ts";
import type { PressMode } from "./schema.ts";

/** Sends a command of the model: a client's `command`, or a function that does more with its answer. Who presses ignores a refusal. */
export type SendCommand = (name: string, data: { readonly [argument: string]: unknown }) => Promise<unknown>;

/** `send` for a coalescer, whose function must not reject. */
export const sending =
  (send: SendCommand) =>
  async (name: string, data: { readonly [argument: string]: unknown }): Promise<void> => {
    await send(name, data).catch(() => {});
  };

/** How a held key repeats where nothing else says it: milliseconds until the first time, and between two times. */
export const REPEAT = { after: 500, every: 33 } as const;

export class Press {
  #mode: PressMode;
  #sender: Coalescer<{ readonly down?: boolean; readonly value?: number }>;
  #sources = new Map<unknown, number>();
  #sentValue = 0;
  /** Called when the command begins and ceases to be held. */
  changed: (held: boolean) => void = () => {};

  constructor({ name, mode }: { readonly name: string; readonly mode: PressMode }, send: SendCommand) {
    this.#mode = mode;
    const sent = sending(send);
    this.#sender = new Coalescer((data) => sent(name, data));
  }

  get held(): boolean {
    return this.#sources.size > 0;
  }

  isHeldBy(source: unknown): boolean {
    return this.#sources.has(source);
  }

  /** `source` presses the command by `value` (0 to 1). Call it again when the value changes. */
  press(source: unknown, value = 1): void {
    const began = !this.held;
    this.#sources.set(source, value);
    if (began) this.changed(true);
    if (this.#mode === "value") this.#sendValue();
    else if (this.#mode === "plain") void this.#sender.sendNow({});
    else if (began) void this.#sender.sendNow({ down: true });
  }

  /** Sends a held plain command again, unless the one before has no answer yet. */
  repeat(): void {
    if (this.#mode === "plain" && !this.#sender.busy) this.#sender.push({});
  }

  release(source: unknown): void {
    if (!this.#sources.delete(source)) return;
    if (this.#mode === "value") this.#sendValue();
    if (this.held) return;
    this.changed(false);
    if (this.#mode === "down") void this.#sender.sendNow({ down: false });
  }

  releaseAll(): void {
    for (const source of [...this.#sources.keys()]) this.release(source);
  }

  /** Ends with the session: releases all sources without sending. */
  close(): void {
    if (!this.held) return;
    this.#sources.clear();
    this.changed(false);
  }

  #sendValue(): void {
    const value = Math.max(0, ...this.#sources.values());
    const before = this.#sentValue;
    if (value === before) return;
    this.#sentValue = value;
    if (value === 0 || before === 0) void this.#sender.sendNow({ value });
    else this.#sender.push({ value });
  }
}
