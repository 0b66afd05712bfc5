/** The public shapes of `reactor-trio/react`: what its components take, and what its hooks give. */
import type { ComponentProps, ReactNode, RefObject } from "react";
import type {
  AnyModel,
  Args,
  CommandName,
  Message,
  ModelShape,
  Names,
  Reply,
  Rest,
  SettingName,
  SettingValue,
  TrackName,
} from "../client/model.ts";
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
  Worlds,
} from "../client/types.ts";
import type { ControlKind } from "../controls/session-controls.ts";
import type { CommandError, ReactorError } from "../wire/errors.ts";
import type { TrackKind, WorldChange } from "../wire/messages.ts";

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

export interface WorldsHook extends Worlds {
  /** The newest change of the world since the component is there, by whichever client; null: none yet. */
  readonly change: WorldChange | null;
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
  /** Earlier moments of the session, and the newest change of its world. */
  useWorlds(): WorldsHook;
  /** A `<div>` with the pictures of a track, which never pass through React. */
  Picture(props: PictureProps<M>): ReactNode;
}
