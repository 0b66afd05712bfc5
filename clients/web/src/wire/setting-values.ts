/** The values of a session's settings, by their fields' names. */
import { MAX_UNANSWERED } from "./command-outbox.ts";
import type { Settings } from "./messages.ts";

const MAX_SETS = 2 * MAX_UNANSWERED; // includes commands whose answers may be lost

/** What the server has said of them, and what commands of this client have set since, once they are applied. */
export class SettingValues {
  #values: Settings = {};
  /** Field and value of commands without an answer that set a setting, by their ids. */
  #sets = new Map<number, [string, unknown]>();

  get values(): Settings {
    return { ...this.#values };
  }

  /** The session begins, or goes on, with these values. */
  begin(values: Settings | undefined): void {
    this.#values = { ...values };
  }

  told(values: Settings): void {
    Object.assign(this.#values, values);
  }

  sent(id: number, type: string, data: { readonly [argument: string]: unknown }): void {
    const field = type.startsWith("set_") ? type.slice(4) : "";
    if (field && Object.hasOwn(data, field)) this.#sets.set(id, [field, data[field]]);
    if (this.#sets.size > MAX_SETS) this.refused(this.#sets.keys().next().value);
  }

  applied(id: number): void {
    const [field, value] = this.#sets.get(id) ?? [""];
    this.#sets.delete(id);
    if (field && Object.hasOwn(this.#values, field)) this.#values[field] = value;
  }

  refused(id: number | undefined): void {
    this.#sets.delete(id as number);
  }
}
