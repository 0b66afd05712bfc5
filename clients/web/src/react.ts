"use client";
/** `reactor-trio/react`: a client as a Provider, hooks for its commands, settings, messages and devices, and its pictures. */
import type { ComponentProps, ReactNode, RefObject } from "react";
import { createContext, createElement, useCallback, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { unlessAborted } from "./client/abort.ts";
import { followControls } from "./client/follow-controls.ts";
import { HeldClient } from "./client/held-client.ts";
import type {
  AnyModel,
  Args,
  CommandName,
  Message,
  ModelRef,
  ModelShape,
  Names,
  Reply,
  Rest,
  SettingName,
  SettingValue,
  TrackName,
} from "./client/model.ts";
import type {
  Applied,
  AudioInputOptions,
  Client,
  ClientState,
  CommandOptions,
  ConnectOptions,
  Presented,
  Publication,
  Sound,
  Statistics,
  Transport,
  UploadOptions,
  UploadRef,
  VideoInputOptions,
  View,
} from "./client/types.ts";
import type { ControlKind } from "./controls/session-controls.ts";
import { CommandError, ReactorError } from "./wire/errors.ts";
import type { TrackKind } from "./wire/messages.ts";

export type MessageType<M extends ModelShape> = Message<M>["type"];
export type MessageData<M extends ModelShape, T extends MessageType<M>> = Extract<Message<M>, { type: T }>["data"];

/** With `url`: a client of this Provider's own. With `client`: yours, which the Provider neither connects nor closes. */
export type ProviderProps<M extends ModelShape> = { readonly children?: ReactNode } & (
  | (ConnectOptions<M> & {
      readonly url: string | URL;
      /** Whether there is a session; default true. */
      readonly active?: boolean;
      readonly client?: never;
    })
  | { readonly client: Client<M>; readonly url?: never }
);

export interface PictureProps<M extends ModelShape = AnyModel> extends Omit<ComponentProps<"div">, "children" | "ref"> {
  /** By default the model's first video track. */
  readonly track?: TrackName<M, "outputs", "video"> | undefined;
  /** How the picture fills the element; default "contain". */
  readonly fit?: "contain" | "cover" | "fill";
  readonly lead?: boolean | undefined;
  readonly onPresented?: ((picture: Presented) => void) | undefined;
  /** What is bound to the model's commands (`key_w`, `pointer_down`, `gamepad_a` and so on); default "none". */
  readonly controls?: ControlKind;
  /** Gets the view, for `snapshot` and `record`; null while there is none. */
  readonly viewRef?: RefObject<View | null> | undefined;
}

export interface CommandHook<M extends ModelShape, K extends CommandName<M>> {
  /** Its promise rejects if the command does. An unhandled rejection of it is no error of the page: `error` has it. */
  readonly run: (...rest: Rest<Args<M, K>, CommandOptions>) => Promise<Applied<Reply<M, K>>>;
  readonly pending: boolean;
  /** Why the newest call was refused; null if it was not. */
  readonly error: CommandError | null;
}

export interface SettingHook<T> {
  /** The value that was set here, until it is applied or refused; else the model's. Undefined before the first session begins. */
  readonly value: T | undefined;
  /** Its promise is that of `Setting.set`. If you ignore it, a refusal of it is no error of the page: `error` has it. */
  readonly set: (value: T) => Promise<void>;
  readonly pending: boolean;
  readonly error: CommandError | null;
}

export interface UploadHook {
  readonly send: (file: Blob, options?: UploadOptions) => Promise<UploadRef>;
  /** The part that is sent, from 0 to 1; null while nothing is. */
  readonly progress: number | null;
  readonly error: ReactorError | null;
}

/** What may be asked of a camera ("video") or a microphone ("audio"). */
export type DeviceOptions<K extends TrackKind> = K extends "audio" ? Omit<AudioInputOptions, "signal"> : Omit<VideoInputOptions, "signal">;

export interface PublicationHook<K extends TrackKind = TrackKind> {
  /** Asks for the camera or the microphone, and sends until `stop`, or until the device, the client or the component is gone. */
  readonly start: (options?: DeviceOptions<K>) => Promise<Publication>;
  readonly stop: () => void;
  /** What is being sent, or null. */
  readonly publication: Publication | null;
  /** Whether `start` waits: for the session, or for the permission that the browser asks for. */
  readonly pending: boolean;
  /** Why the device did not start, or why it failed later. */
  readonly error: ReactorError | null;
}

export interface SoundHook {
  readonly state: Sound["state"];
  /** To be called in a gesture's handler: browsers play no sound before one. */
  readonly start: () => void;
  readonly stop: () => void;
  readonly volume: number;
  readonly setVolume: (volume: number) => void;
}

export interface TransportHook extends Transport {
  readonly pending: boolean;
  /** Why the newest call was refused; null if it was not. */
  readonly error: CommandError | null;
}

/** The Provider, the hooks and the picture, for a model of these types. */
export interface Hooks<M extends ModelShape> {
  ReactorProvider(props: ProviderProps<M>): ReactNode;
  useClient(): Client<M>;
  useReactorState(): ClientState;
  /** The figures, read again every so many milliseconds; null until the first time. */
  useStatistics(everyMs?: number): Statistics | null;
  useCommand<K extends CommandName<M>>(name: K): CommandHook<M, K>;
  useSetting<F extends SettingName<M>>(name: F): SettingHook<SettingValue<M, F>>;
  /** Calls the newest `handler` for each message of this type. */
  useMessage<T extends MessageType<M>>(type: T, handler: (data: MessageData<M, T>) => void): void;
  /** The newest message of this type since the component is there. */
  useLatest<T extends MessageType<M>>(type: T): MessageData<M, T> | undefined;
  useUpload(): UploadHook;
  usePublication<T extends Names<M["inputs"]>>(track: T): PublicationHook<M["inputs"][T]>;
  useSound(): SoundHook;
  /** What this client may do with the model, and whether it is paused. */
  useTransport(): TransportHook;
  /** A `<div>` with the pictures of a track, which never pass through React. */
  Picture(props: PictureProps<M>): ReactNode;
}

/** The hooks with the types of `model`, a generated file's constant. To be called once, beside the components. */
export function createHooks<M extends ModelShape>(model: ModelRef<M>): Hooks<M> {
  // biome-ignore lint/correctness/noComponentHookFactories: createHooks is called once, outside of components
  const Provider = (props: ProviderProps<AnyModel>): ReactNode =>
    createElement(ReactorProvider, { model, ...props } as ProviderProps<AnyModel>);
  // The untyped hooks are given the model's types here, once.
  return { ...untyped, ReactorProvider: Provider } as unknown as Hooks<M>;
}

const ClientContext = createContext<Client | null>(null);

export function ReactorProvider(props: ProviderProps<AnyModel>): ReactNode {
  if (props.client !== undefined) return createElement(ClientContext.Provider, { value: props.client }, props.children);
  return createElement(OwnClient, props);
}

type OwnProps = Extract<ProviderProps<AnyModel>, { url: string | URL }>;

/** Another session begins for another address, role or model alone; the token is the newest at each connection. */
function OwnClient({ url, active = true, children, ...options }: OwnProps): ReactNode {
  const { role, model, token } = options;
  const key = JSON.stringify([String(url), role, model]);
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

export function useReactorState(): ClientState {
  const client = useClient();
  return useStore(
    useCallback((changed) => client.on("state", changed), [client]),
    () => client.state,
  );
}

export function useStatistics(everyMs = 1000): Statistics | null {
  const client = useClient();
  const [statistics, note] = useState<Statistics | null>(null);
  useEffect(() => {
    const timer = setInterval(() => note(client.statistics()), everyMs);
    return () => clearInterval(timer);
  }, [client, everyMs]);
  return statistics;
}

export function useCommand(name: string): CommandHook<AnyModel, string> {
  const client = useClient();
  const { pending, error, watch } = useCalls();
  const run: CommandHook<AnyModel, string>["run"] = useCallback((...rest) => watch(client.command(name, ...rest)), [client, name, watch]);
  return { run, pending, error: error instanceof CommandError ? error : null };
}

export function useSetting(name: string): SettingHook<unknown> {
  const setting = useClient().setting(name);
  const subscribe = useCallback((changed: () => void) => setting.subscribe(changed), [setting]);
  const value = useStore(subscribe, () => setting.value);
  const pending = useStore(subscribe, () => setting.pending);
  const error = useStore(subscribe, () => setting.error);
  // A slider must not jump back to the model's value while its own is under way.
  const [wish, want] = useState<{ readonly value: unknown } | null>(null);
  const set = useCallback(
    (value: unknown) => {
      const wish = { value };
      want(wish);
      const done = (): void => want((newest) => (newest === wish ? null : newest));
      const call = setting.set(value);
      call.then(done, done);
      return call;
    },
    [setting],
  );
  return { value: wish === null ? value : wish.value, set, pending, error };
}

export function useMessage(type: string, handler: (data: { [field: string]: unknown }) => void): void {
  const client = useClient();
  const newest = useNewest(handler);
  useEffect(() => client.on("message", (message) => message.type === type && newest.current(message.data)), [client, type, newest]);
}

export function useLatest(type: string): { [field: string]: unknown } | undefined {
  const client = useClient();
  const [latest, note] = useState<{ client: Client; type: string; data: { [field: string]: unknown } } | null>(null);
  useMessage(type, (data) => note({ client, type, data }));
  return latest?.client === client && latest.type === type ? latest.data : undefined;
}

export function useUpload(): UploadHook {
  const client = useClient();
  const [progress, note] = useState<number | null>(null);
  const { pending, error, watch } = useCalls();
  const send = useCallback(
    (file: Blob, { onProgress, ...options }: UploadOptions = {}) => {
      note(0);
      const told = (part: number): void => {
        note(part);
        onProgress?.(part);
      };
      return watch(client.upload(file, { ...options, onProgress: told }));
    },
    [client, watch],
  );
  return { send, progress: pending ? progress : null, error };
}

export function usePublication(track: string): PublicationHook {
  const client = useClient();
  const [publication, note] = useState<Publication | null>(null);
  const { pending, error, watch } = useCalls();
  const running = useRef<AbortController | null>(null);
  const stop = useCallback(() => {
    running.current?.abort();
    running.current = null;
    note(null);
  }, []);
  const start = useCallback(
    (given: DeviceOptions<TrackKind> = {}) => {
      stop();
      const mine = new AbortController();
      running.current = mine;
      const publish = async (): Promise<Publication> => {
        const session = await unlessAborted(client.ready, mine.signal);
        const kind = session.tracks.find(({ name, direction }) => name === track && direction === "in")?.kind;
        const options = { ...given, signal: mine.signal };
        const started = await (kind === "audio" ? client.publish(track, "microphone", options) : client.publish(track, "camera", options));
        if (mine.signal.aborted) return started;
        note(started);
        void started.ended.then((fault) => {
          if (running.current !== mine) return;
          stop();
          if (fault !== null) void watch(Promise.reject(fault)); // shown as `error`
        });
        return started;
      };
      return watch(publish());
    },
    [client, track, stop, watch],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: another client or track has another publication
  useEffect(() => stop, [client, track, stop]);
  return { start, stop, publication, pending, error };
}

export function useSound(): SoundHook {
  const { sound } = useClient();
  const subscribe = useCallback((changed: () => void) => sound.subscribe(changed), [sound]);
  const state = useStore(subscribe, () => sound.state);
  const volume = useStore(subscribe, () => sound.volume);
  const calls = useMemo(
    () => ({
      start: () => void sound.start().catch(() => {}), // the client's event `error` says why
      stop: () => void sound.stop(),
      setVolume: (volume: number): void => {
        sound.volume = volume;
      },
    }),
    [sound],
  );
  return { state, volume, ...calls };
}

export function useTransport(): TransportHook {
  const client = useClient();
  const { transport } = client;
  const { pending, error, watch } = useCalls();
  const subscribe = useCallback(
    (changed: () => void) => {
      const ends = [client.on("state", changed), client.on("transport", changed)];
      return () => {
        for (const end of ends) end();
      };
    },
    [client],
  );
  const allowed = useStore(subscribe, () => transport.allowed);
  const paused = useStore(subscribe, () => transport.paused);
  const calls = useMemo(
    (): Omit<Transport, "allowed" | "paused"> => ({
      pause: () => watch(transport.pause()),
      resume: () => watch(transport.resume()),
      step: (steps) => watch(transport.step(steps)),
      restart: (options) => watch(transport.restart(options)),
    }),
    [transport, watch],
  );
  return { allowed, paused, ...calls, pending, error: error instanceof CommandError ? error : null };
}

export function Picture({ track, fit = "contain", lead, onPresented, controls = "none", viewRef, ...rest }: PictureProps): ReactNode {
  const client = useClient();
  const box = useRef<HTMLDivElement>(null);
  const presented = useNewest(onPresented);
  const [attached, note] = useState<{ client: Client; canvas: HTMLCanvasElement; view: View } | null>(null);
  useEffect(() => {
    // A canvas of this effect's own: once a worker draws on one, it cannot be given to it again.
    const canvas = document.createElement("canvas");
    Object.assign(canvas.style, { display: "block", width: "100%", height: "100%" });
    box.current?.append(canvas);
    const view = client.attach(canvas, {
      ...(track === undefined ? {} : { track }),
      onPresented: (picture) => presented.current?.(picture),
    });
    if (viewRef) viewRef.current = view;
    note({ client, canvas, view });
    return () => {
      if (viewRef) viewRef.current = null;
      view[Symbol.dispose]();
      canvas.remove();
    };
  }, [client, track, presented, viewRef]);
  // What follows may change while the same picture goes on.
  useEffect(() => {
    if (attached !== null) attached.canvas.style.objectFit = fit;
  }, [attached, fit]);
  useEffect(() => {
    if (attached !== null && lead !== undefined) attached.view.lead = lead;
  }, [attached, lead]);
  useEffect(() => {
    if (attached !== null) return followControls(attached.client, attached.canvas, controls);
  }, [attached, controls]);
  return createElement("div", { ...rest, ref: box });
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
  Picture,
};

function useStore<T>(subscribe: (changed: () => void) => () => void, read: () => T): T {
  return useSyncExternalStore(subscribe, read, read);
}

/** The value of the newest render, for what is called later. */
function useNewest<T>(value: T): RefObject<T> {
  const ref = useRef(value);
  useEffect(() => {
    ref.current = value;
  });
  return ref;
}

interface Calls {
  readonly pending: boolean;
  /** Of the newest call that ended. */
  readonly error: ReactorError | null;
  /** Notes how a call goes. It gives the same promise back, whose rejection counts as handled. */
  readonly watch: <T>(call: Promise<T>) => Promise<T>;
}

function useCalls(): Calls {
  const [{ open, error }, note] = useState<{ open: number; error: ReactorError | null }>({ open: 0, error: null });
  const watch = useCallback(<T>(call: Promise<T>): Promise<T> => {
    const ended = (error: unknown): void => note(({ open }) => ({ open: open - 1, error: error instanceof ReactorError ? error : null }));
    note(({ open }) => ({ open: open + 1, error: null }));
    call.then(() => ended(null), ended);
    return call;
  }, []);
  return { pending: open > 0, error, watch };
}
