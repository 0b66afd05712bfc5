"use client";
/** The client of a part of the page: made by a Provider of its own, or given. */
import type { ReactNode } from "react";
import { createContext, createElement, useContext, useEffect, useRef, useState } from "react";
import { HeldClient } from "../client/held-client.ts";
import type { AnyModel } from "../client/model.ts";
import type { Client } from "../client/types.ts";
import type { ProviderProps } from "./types.ts";

const ClientContext = createContext<Client | null>(null);

export function ReactorProvider(props: ProviderProps<AnyModel>): ReactNode {
  if (props.client !== undefined) return createElement(ClientContext.Provider, { value: props.client }, props.children);
  return createElement(OwnClient, props);
}

type OwnProps = Extract<ProviderProps<AnyModel>, { url: string | URL }>;

/** Another session begins for another address, role, model or world alone; the token is the newest at each connection. */
function OwnClient({ url, active = true, children, ...options }: OwnProps): ReactNode {
  const { role, model, fork, world, token } = options;
  const key = JSON.stringify([String(url), role, model, fork, world]);
  // Nothing of a client that is only made has to be given back: React may throw it away.
  const make = (): { key: string; held: HeldClient } => ({ key, held: new HeldClient(key, absolute(url), options, active) });
  const [kept, keep] = useState(make);
  let { held } = kept;
  if (kept.key !== key) {
    const made = make();
    keep(made);
    held = made.held;
  }
  useEffect(() => {
    held.token = token;
  });
  const last = useRef<HeldClient>(null);
  useEffect(() => {
    if (!active) return undefined;
    // A Provider that has just gone may have left a client for this one, unless StrictMode has only unmounted this one.
    const found = last.current === held ? held : (HeldClient.leaving(key) ?? held);
    last.current = found;
    if (found !== held) keep({ key, held: found });
    return found.hold();
  }, [held, active, key]);
  return createElement(ClientContext.Provider, { value: held.client }, children);
}

/** On a server, which renders and connects nothing, a path is an address too. */
function absolute(url: string | URL): URL {
  return new URL(url, globalThis.document?.baseURI ?? "http://server.invalid/");
}

export function useClient(): Client {
  const client = useContext(ClientContext);
  if (client === null) throw new Error("There is no <ReactorProvider> around this component: put one there, with the url of the server.");
  return client;
}
