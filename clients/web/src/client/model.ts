/** What generated types of a model look like (`reactor types`), and what they give the methods of a `Client`. */
import type { TrackKind } from "../wire/messages.ts";

/** The types of a model: commands with their arguments and replies, messages, and tracks. */
export interface ModelShape {
  name: string;
  commands: Record<string, { args: object; reply: unknown }>;
  messages: Record<string, object>;
  outputs: Record<string, TrackKind>;
  inputs: Record<string, TrackKind>;
}

/** A model without generated types. */
export interface AnyModel extends ModelShape {
  commands: { [name: string]: { args: { [argument: string]: unknown }; reply: unknown } };
  messages: { [type: string]: { [field: string]: unknown } };
}

/** The one value in a generated file; the option `model` of `connect`. */
export interface ModelRef<M> {
  readonly name: string;
  /** 16 hexadecimal digits; a server whose schema has another hash gives the diagnostic `schema_changed`. */
  readonly schemaHash: string;
  readonly __model?: M;
}

export type Names<T> = Extract<keyof T, string>;
export type CommandName<M extends ModelShape> = Names<M["commands"]>;
export type Args<M extends ModelShape, K extends CommandName<M>> = M["commands"][K]["args"];
export type Reply<M extends ModelShape, K extends CommandName<M>> = M["commands"][K]["reply"];

/** The fields that have a command `set_<field>`. */
export type SettingName<M extends ModelShape> =
  string extends CommandName<M> ? string : CommandName<M> extends infer K ? (K extends `set_${infer F}` ? F : never) : never;
export type SettingValue<M extends ModelShape, F extends SettingName<M>> =
  `set_${F}` extends CommandName<M> ? (Args<M, `set_${F}`> extends infer A ? (A extends unknown ? A[keyof A] : never) : never) : unknown;

/** The tracks of a direction and a kind. */
export type TrackName<M extends ModelShape, D extends "outputs" | "inputs", K extends TrackKind> = {
  [T in Names<M[D]>]: M[D][T] extends K ? T : K extends M[D][T] ? T : never;
}[Names<M[D]>];

/** A message of the model; `type` tells which. `n` counts the server's messages in the session. */
export type Message<M extends ModelShape> = {
  [T in Names<M["messages"]>]: { readonly type: T; readonly data: M["messages"][T]; readonly n: number };
}[Names<M["messages"]>];

/** The arguments of `command` after the name: left out if the command needs none. */
// biome-ignore lint/complexity/noBannedTypes: whether an empty object is enough is exactly the question
export type Rest<A, O> = {} extends A ? [args?: A, options?: O] : [args: A, options?: O];
