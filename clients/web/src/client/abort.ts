/** Settles as `wait` does; or, as soon as `signal` aborts, calls `aborted` and rejects with the signal's reason. */
export function unlessAborted<T>(wait: Promise<T>, signal: AbortSignal | undefined, aborted?: () => void): Promise<T> {
  if (signal === undefined) return wait;
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      aborted?.();
      reject(signal.reason as Error);
    };
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort);
    void wait.then(resolve, reject).then(() => signal.removeEventListener("abort", abort));
  });
}
