"use client";
/** `reactor-trio/react`: a client as a Provider, hooks for its commands, settings, messages and devices, and its pictures. */
import type { ReactNode } from "react";
import { createElement } from "react";
import type { AnyModel, ModelRef, ModelShape } from "./client/model.ts";
import {
  useCommand,
  useLatest,
  useMessage,
  usePublication,
  useReactorState,
  useSetting,
  useSound,
  useStatistics,
  useTransport,
  useUpload,
  useWorlds,
} from "./react/hooks.ts";
import { Picture } from "./react/picture.ts";
import { ReactorProvider, useClient } from "./react/provider.ts";
import type { Hooks, ProviderProps } from "./react/types.ts";

// By name: Next takes no `export *` from a module of the client side.
export {
  useCommand,
  useLatest,
  useMessage,
  usePublication,
  useReactorState,
  useSetting,
  useSound,
  useStatistics,
  useTransport,
  useUpload,
  useWorlds,
} from "./react/hooks.ts";
export { Picture } from "./react/picture.ts";
export { ReactorProvider, useClient } from "./react/provider.ts";
export type * from "./react/types.ts";

/** The hooks with the types of `model`, a generated file's constant. To be called once, beside the components. */
export function createHooks<M extends ModelShape>(model: ModelRef<M>): Hooks<M> {
  // biome-ignore lint/correctness/noComponentHookFactories: createHooks is called once, outside of components
  const Provider = (props: ProviderProps<AnyModel>): ReactNode =>
    createElement(ReactorProvider, { model, ...props } as ProviderProps<AnyModel>);
  // The untyped hooks are given the model's types here, once.
  return { ...untyped, ReactorProvider: Provider } as unknown as Hooks<M>;
}

const untyped: Hooks<AnyModel> = {
  ReactorProvider,
  useClient,
  useReactorState,
  useStatistics,
  useCommand,
  useSetting,
  useMessage,
  useLatest,
  useUpload,
  usePublication,
  useSound,
  useTransport,
  useWorlds,
  Picture,
};
