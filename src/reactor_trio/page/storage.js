/** Browser storage that never throws. Some browsers throw on each access, even on access to the storage object. */
export class SafeStorage {
  #storage;

  /** `storage()` returns a `Storage`. */
  constructor(storage) {
    this.#storage = storage;
  }

  /** The stored text of `key`, or null. */
  get(key) {
    try {
      return this.#storage()?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** Stores the text `value`; null removes the entry. */
  set(key, value) {
    try {
      if (value === null) this.#storage()?.removeItem(key);
      else this.#storage()?.setItem(key, value);
    } catch {
      // the page works without storage
    }
  }
}
