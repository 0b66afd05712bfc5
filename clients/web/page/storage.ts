/** Returns a `Storage`; undefined where there is none. It may throw. */
export type OpenStorage = () => Pick<Storage, "getItem" | "setItem" | "removeItem"> | undefined;

/** Browser storage that never throws. Some browsers throw on each access, even on access to the storage object. */
export class SafeStorage {
  #storage: OpenStorage;

  constructor(storage: OpenStorage) {
    this.#storage = storage;
  }

  /** The stored text of `key`, or null. */
  get(key: string): string | null {
    try {
      return this.#storage()?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** Stores the text `value`; null removes the entry. */
  set(key: string, value: string | null): void {
    try {
      if (value === null) this.#storage()?.removeItem(key);
      else this.#storage()?.setItem(key, value);
    } catch {
      // the page works without storage
    }
  }
}
