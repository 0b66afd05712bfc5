/** The model of this app: its typed hooks, its server, and the few questions that several components ask. */
import { useEffect, useMemo, useState } from "react";
import { readCommands, type SliderField } from "reactor-trio/controls";
import { createHooks } from "reactor-trio/react";
import { studio } from "./studio.ts";

declare global {
  interface ImportMeta {
    readonly env: { readonly VITE_SERVER?: string };
  }
}

/** Where the model is served: `VITE_SERVER` of the environment or of a file `.env`, else port 8080 of this page's machine. */
export const SERVER = import.meta.env.VITE_SERVER ?? `http://${location.hostname}:8080/`;

/** The token of a share link, if this page was opened with one. It is behind the `#`, which browsers send to nobody. */
export const WATCHED = new URLSearchParams(location.hash.slice(1)).get("watch");

export const { ReactorProvider, Picture, useClient, useCommand, useLatest, usePublication, useReactorState, useSetting } =
  createHooks(studio);

/** Whether this page may change anything: not before the session, and not while it watches one. */
export function useControl(): boolean {
  const state = useReactorState();
  return "session" in state && state.session.role === "control";
}

/** The last value that was not undefined: what the page shows after a session is that of the session. */
export function useKept<T>(value: T | undefined): T | undefined {
  const [kept, keep] = useState(value);
  if (value !== undefined && value !== kept) keep(value);
  return value ?? kept;
}

/** Bounds, defaults and descriptions of the sliders, as the server tells them; empty before the first session. */
export function useSliderFields(): ReadonlyMap<string, SliderField> {
  const state = useReactorState();
  const schema = useKept("session" in state ? state.session.schema : undefined);
  return useMemo(() => {
    const fields = readCommands(schema?.commands ?? []).settings.map(({ field }) => field);
    return new Map(fields.filter((field) => field.kind === "slider").map((field) => [field.name, field]));
  }, [schema]);
}

/** `performance.now()`, read again each second while `running`. */
export function useNow(running: boolean): number {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    if (!running) return undefined;
    setNow(performance.now());
    const timer = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return now;
}
