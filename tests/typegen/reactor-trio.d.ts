// The part of the npm package `reactor-trio` that generated types are for: model, commands, settings, messages and tracks.
declare module "reactor-trio" {
  export type TrackKind = "video" | "audio";
  export interface ModelShape {
    name: string;
    commands: Record<string, { args: object; reply: unknown }>;
    messages: Record<string, object>;
    outputs: Record<string, TrackKind>;
    inputs: Record<string, TrackKind>;
  }
  export interface AnyModel extends ModelShape {
    commands: { [name: string]: { args: { [argument: string]: unknown }; reply: unknown } };
    messages: { [type: string]: { [field: string]: unknown } };
  }
  export interface ModelRef<M> {
    readonly name: string;
    readonly schemaHash: string;
    readonly __model?: M;
  }

  type Names<T> = Extract<keyof T, string>;
  export type CommandName<M extends ModelShape> = Names<M["commands"]>;
  export type Args<M extends ModelShape, K extends CommandName<M>> = M["commands"][K]["args"];
  export type Reply<M extends ModelShape, K extends CommandName<M>> = M["commands"][K]["reply"];
  export type SettingName<M extends ModelShape> = string extends CommandName<M>
    ? string
    : CommandName<M> extends infer K
      ? K extends `set_${infer F}`
        ? F
        : never
      : never;
  export type SettingValue<M extends ModelShape, F extends SettingName<M>> =
    `set_${F}` extends CommandName<M> ? (Args<M, `set_${F}`> extends infer A ? A[keyof A] : never) : unknown;
  export type TrackName<M extends ModelShape, D extends "outputs" | "inputs", K extends TrackKind> = {
    [T in Names<M[D]>]: M[D][T] extends K ? T : K extends M[D][T] ? T : never;
  }[Names<M[D]>];
  export type Message<M extends ModelShape> = {
    [T in Names<M["messages"]>]: { readonly type: T; readonly data: M["messages"][T]; readonly n: number };
  }[Names<M["messages"]>];
  type Rest<A> = {} extends A ? [args?: A, options?: CommandOptions] : [args: A, options?: CommandOptions];

  export interface CommandOptions {
    signal?: AbortSignal;
  }
  export interface Applied<R> {
    readonly reply: R;
    readonly step: number;
    readonly id: number;
  }
  export interface Setting<T> {
    readonly value: T | undefined;
    set(value: T): Promise<void>;
  }
  export interface UploadRef {
    readonly upload_id: string;
    readonly name: string;
    readonly mime_type: string;
    readonly size: number;
  }
  export interface ConnectOptions<M extends ModelShape = AnyModel> {
    model?: ModelRef<M> | string;
  }
  export interface Client<M extends ModelShape = AnyModel> {
    command<K extends CommandName<M>>(name: K, ...rest: Rest<Args<M, K>>): Promise<Applied<Reply<M, K>>>;
    setting<F extends SettingName<M>>(name: F): Setting<SettingValue<M, F>>;
    messages(): AsyncIterableIterator<Message<M>>;
    upload(source: Blob | Uint8Array): Promise<UploadRef>;
    frames(track?: TrackName<M, "outputs", "video">): AsyncIterableIterator<object>;
    publish(track: TrackName<M, "inputs", "video">, source: "camera" | MediaStreamTrack): Promise<void>;
    publish(track: TrackName<M, "inputs", "audio">, source: "microphone" | MediaStreamTrack): Promise<void>;
  }
  export function connect<M extends ModelShape = AnyModel>(url: string | URL, options?: ConnectOptions<M>): Client<M>;
}
