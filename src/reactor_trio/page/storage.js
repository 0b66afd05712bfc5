/** What the browser keeps for this page, if it does: some browsers throw at whoever asks, also for the storage itself. */
export class SafeStorage {
  #storage;

  /** `storage()` gives a `Storage`. */
  constructor(storage) {
    this.#storage = storage;
  }

  /** What was kept as `key`, or null. */
  get(key) {
    try {
      return this.#storage()?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  /** Keeps the text `value`; null forgets what was kept. */
  set(key, value) {
    try {
      if (value === null) this.#storage()?.removeItem(key);
      else this.#storage()?.setItem(key, value);
    } catch {
      // then the page does without
    }
  }
}
