/** Typed listeners by the name of an event. A listener that throws stops nobody; its error is reported as an uncaught one. */
export class Emitter<Events> {
  #listeners = new Map<keyof Events, Set<(detail: never) => void>>();

  /** Calls `listener` for each event until the returned function is called, or `signal` aborts. */
  on<E extends keyof Events>(
    event: E,
    listener: (detail: Events[E]) => void,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): () => void {
    if (signal?.aborted) return () => {};
    // Its own object, so that a function that is given twice is called twice, and each off() removes one.
    const call = (detail: Events[E]): void => listener(detail);
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(call));
    const off = (): void => {
      listeners.delete(call);
      signal?.removeEventListener("abort", off);
    };
    signal?.addEventListener("abort", off);
    return off;
  }

  emit<E extends keyof Events>(event: E, detail: Events[E]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as (detail: Events[E]) => void)(detail);
      } catch (error) {
        // Nothing of ours may fail because of it, and nothing is swallowed: it becomes the window's, or the process's, uncaught error.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
