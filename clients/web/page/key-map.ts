/** The keys that the user gave to a model's commands instead of the model's own. The browser keeps them by the model's name. */
import { KeyLayout, wholeCrosses } from "../src/controls.ts";
import { eventSign, keySign, type PrintedKeys } from "./signs.ts";
import type { SafeStorage } from "./storage.ts";

/** A key of the keyboard: its place, as events have it in `code`, and what was printed on it when the user chose it. */
interface Given {
  readonly code: string;
  readonly sign: string;
}

type KeyOfEvent = Pick<KeyboardEvent, "key" | "code">;

export class KeyMap {
  #keys: readonly string[];
  #placed: ReadonlySet<string>; // the keys that go by their place, as in `KeyLayout`
  #storage: SafeStorage;
  #entry: string;
  #given: Map<string, Given>;
  /** What is printed on the user's keyboard, as far as it is known. */
  printed: PrintedKeys = new Map();

  /** `keys` are the names of the model's keys. */
  constructor(keys: readonly string[], model: string, storage: SafeStorage) {
    this.#keys = keys;
    this.#placed = new Set(wholeCrosses(keys).flatMap((cross) => cross.filter((key) => key.length === 1)));
    this.#storage = storage;
    this.#entry = `keys:${model}`;
    this.#given = new Map(read(storage.get(this.#entry)).filter(([key]) => keys.includes(key)));
  }

  get layout(): KeyLayout {
    return new KeyLayout(this.#keys, new Map([...this.#given].map(([key, { code }]) => [code, key])));
  }

  /** Whether the user has changed a key. */
  get changed(): boolean {
    return this.#given.size > 0;
  }

  /** What stands on the key that presses `key` now, if that is not the key's name: the user has changed it, or it goes by its place. */
  sign(key: string): string | undefined {
    const place = this.#given.get(key) ?? (this.#placed.has(key) ? ownPlace(key) : null);
    const print = place && this.printed.get(place.code);
    return print ? keySign(print) : place?.sign;
  }

  /**
   * Gives `key` the key of this event. If that is the key of another command, the two change places, so that no command is without a key.
   * Returns false if this cannot be done, because the page does not know the place of the key that the other command would get.
   */
  give(key: string, event: KeyOfEvent): boolean {
    const other = this.layout.find(event);
    if (other === key) return true;
    if (other !== undefined) {
      const place = this.#given.get(key) ?? ownPlace(key);
      if (place === null) return false;
      this.#set(other, place);
    }
    this.#set(key, { code: event.code, sign: eventSign(event) }, event);
    this.#keep();
    return true;
  }

  /** Gives all commands the model's keys. */
  reset(): void {
    this.#given.clear();
    this.#keep();
  }

  #set(key: string, given: Given, event: KeyOfEvent = { code: given.code, key: given.sign.toLowerCase() }): void {
    if (new KeyLayout(this.#keys).find(event) === key) this.#given.delete(key);
    else this.#given.set(key, given);
  }

  #keep(): void {
    const kept = Object.fromEntries([...this.#given].map(([key, { code, sign }]) => [key, [code, sign]]));
    this.#storage.set(this.#entry, this.changed ? JSON.stringify(kept) : null);
  }
}

/** Where the model's own key lies on a US keyboard; null for keys that no letter, digit, arrow or usual name stands for. */
function ownPlace(key: string): Given | null {
  const sign = keySign(key);
  if (/^[a-z]$/.test(key)) return { code: `Key${sign}`, sign };
  if (/^[0-9]$/.test(key)) return { code: `Digit${sign}`, sign };
  const name = key.charAt(0).toUpperCase() + key.slice(1);
  if (/^(up|down|left|right)$/.test(key)) return { code: `Arrow${name}`, sign };
  return /^(space|enter)$/.test(key) ? { code: name, sign } : null;
}

/** What was kept; anything else in its place is nothing. Two commands never have one key. */
function read(text: string | null): [string, Given][] {
  try {
    const codes = new Set<string>();
    return Object.entries(JSON.parse(text ?? "{}") as object).flatMap(([key, given]): [string, Given][] => {
      if (!Array.isArray(given) || typeof given[0] !== "string" || typeof given[1] !== "string" || codes.has(given[0])) return [];
      codes.add(given[0]);
      return [[key, { code: given[0], sign: given[1].slice(0, 12) }]];
    });
  } catch {
    return [];
  }
}
