"use client";
/** What several hooks are made of. */
import type { RefObject } from "react";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { ReactorError } from "../wire/errors.ts";

export function useStore<T>(subscribe: (changed: () => void) => () => void, read: () => T): T {
  return useSyncExternalStore(subscribe, read, read);
}

/** The value of the newest render, for what is called later. */
export function useNewest<T>(value: T): RefObject<T> {
  const ref = useRef(value);
  useEffect(() => {
    ref.current = value;
  });
  return ref;
}

export interface Calls {
  readonly pending: boolean;
  /** Of the newest call that ended. */
  readonly error: ReactorError | null;
  /** Notes how a call goes. It gives the same promise back, whose rejection counts as handled. */
  readonly watch: <T>(call: Promise<T>) => Promise<T>;
}

export function useCalls(): Calls {
  const [{ open, error }, note] = useState<{ open: number; error: ReactorError | null }>({ open: 0, error: null });
  const watch = useCallback(<T>(call: Promise<T>): Promise<T> => {
    const ended = (error: unknown): void => note(({ open }) => ({ open: open - 1, error: error instanceof ReactorError ? error : null }));
    note(({ open }) => ({ open: open + 1, error: null }));
    call.then(() => ended(null), ended);
    return call;
  }, []);
  return { pending: open > 0, error, watch };
}
