/** The JSON messages of the wire protocol (docs/reference/protocol.md), as types. Names are the wire's. */

/** A JSON Schema; a model author's own, so each keyword is looked at before it is used. */
export type JsonSchema = { readonly [keyword: string]: unknown };

export type TrackKind = "video" | "audio";

/** The colour space of a track's samples, in the terms of `VideoColorSpace`. */
export interface Color {
  readonly matrix: string;
  readonly primaries: string;
  readonly transfer: string;
  readonly full_range: boolean;
}

/** What a client needs to decode a track, or to send one. Sizes are in pixels, null until the first frame is known. */
export interface TrackDescription {
  readonly index: number;
  readonly name: string;
  readonly kind: TrackKind;
  readonly direction: "in" | "out";
  readonly codec: string | null;
  readonly codec_string: string | null;
  readonly width: number | null;
  readonly height: number | null;
  /** The size of the decoder's output where it is larger than the picture, which is at its top left. */
  readonly coded_width?: number | null;
  readonly coded_height?: number | null;
  readonly pixel_format: string | null;
  readonly color: Color | null;
  /** Hertz. */
  readonly sample_rate: number | null;
  /** What an input track accepts, best first. */
  readonly codecs?: readonly string[] | null;
}

export interface CommandDescription {
  readonly name: string;
  readonly description?: string;
  readonly schema?: JsonSchema;
  /** The JSON Schema of the answer; without one the command answers nothing. */
  readonly reply?: JsonSchema;
}

/** How a model introduces itself. Texts are the author's; null where there is none. Addresses are relative to the server's page. */
export interface ModelIntroduction {
  readonly title: string | null;
  /** Plain text with a little Markdown: paragraphs, lists, emphasis, code and links. */
  readonly description: string | null;
  readonly author: string | null;
  /** What to do, in a few words: "W A S D to walk, drag to look". */
  readonly hint: string | null;
  /** The same for one kind of hand. */
  readonly hints: { readonly [Hand in "keyboard" | "touch" | "gamepad"]?: string };
  /** The model's colour on a light and on a dark page, as "#rrggbb"; both can be read there. */
  readonly accent: { readonly light: string; readonly dark: string } | null;
  /** The address of a small sign of the model. */
  readonly mark: string | null;
  readonly links: readonly { readonly label: string; readonly url: string }[];
  readonly thumbnail: string | null;
  /** Values of settings that belong together. */
  readonly examples: readonly { readonly name: string; readonly picture: string | null; readonly values: Settings }[];
  /** How the settings are shown, by field; those with nothing of their own are left out. */
  readonly settings: { readonly [field: string]: SettingPresentation };
  /** The same for arguments of other commands, by command and argument; absent if there is none. */
  readonly arguments?: { readonly [command: string]: { readonly [argument: string]: SettingPresentation } };
}

export interface SettingPresentation {
  readonly group: string | null;
  readonly advanced: boolean;
  readonly unit: string | null;
  /** What it is called; absent: its name. */
  readonly label?: string;
  /** How it is shown, such as "radio"; absent: as its type asks for. */
  readonly widget?: string;
}

export interface ModelSchema {
  readonly name: string;
  readonly protocol: number;
  /** Absent from servers before 0.3. */
  readonly about?: ModelIntroduction;
  readonly tracks: readonly TrackDescription[];
  readonly commands: readonly CommandDescription[];
  readonly messages: readonly { readonly name: string; readonly description?: string; readonly schema?: JsonSchema }[];
}

/** Values of the model's settings by field. */
export type Settings = { [field: string]: unknown };

export type Role = "control" | "viewer";

/** Data of `reactor.welcome`. Times are in seconds. */
export interface Welcome {
  readonly session_id: string;
  readonly protocol: number;
  readonly name: string;
  readonly role: Role;
  readonly heartbeat: number;
  readonly resume_token: string | null;
  readonly upload_token: string | null;
  readonly schema: ModelSchema;
  readonly tracks: readonly TrackDescription[];
  readonly share_token?: string | null;
  readonly resume_window?: number | null;
  /** Whether this client resumed a session; then the server had received this many of its commands, and it has missed this many messages. */
  readonly resumed?: boolean;
  readonly received?: number;
  readonly missed?: number;
  readonly state?: Settings;
  /** 16 hexadecimal digits: what commands, messages and tracks the model has. */
  readonly schema_hash?: string;
  /** What this client may do with the model. */
  readonly transport?: readonly TransportAction[];
  readonly paused?: boolean;
  /** What this client may do with the session's worlds; null if the model saves none, absent without `worlds=1`. */
  readonly worlds?: { readonly may: readonly WorldAction[]; readonly token?: string; readonly lasting?: boolean } | null;
}

/** What a client may do with the worlds of its session. */
export type WorldAction = "rewind" | "save" | "fork";

/** The world after one step, as the server keeps it. `age` is in seconds of the world's own time, `picture` whether there is one of it. */
export interface Moment {
  readonly step: number;
  readonly age: number;
  readonly bytes: number;
  readonly picture: boolean;
}

/** A saved world. Whoever has its `id` may restore it. Times are in seconds since 1970, of the server's clock. */
export interface WorldInStore {
  readonly id: string;
  readonly name: string;
  readonly step: number;
  readonly age: number;
  readonly bytes: number;
  readonly saved_at: number;
  readonly expires: number;
}

/** The moments that a session may go back to, in the order of the world's own time, also those ahead of a rewind. */
export interface WorldList {
  readonly moments: readonly Moment[];
  /** The worlds that this session has saved. */
  readonly worlds: readonly WorldInStore[];
  /** What the moments need, and may need, in bytes. */
  readonly bytes: number;
  readonly most: number;
  /** What `undo` would go back to. */
  readonly undo: Moment | null;
}

/** Data of `reactor.saved`: the world is in the store; with `code` it is not. */
export type WorldSaved = { readonly world: string } & ({ readonly code?: undefined } | { readonly code: string; readonly message: string });

/** Data of `reactor.moment`: from step `step` on, the world is that of an earlier moment. */
export interface WorldChange {
  readonly step: number;
  readonly to: Moment;
  readonly why: "rewind" | "restore" | "fork" | "continued";
  /** The age of the world on screen before; absent if the two are not of one past. */
  readonly from?: number;
}

/** What a client may do with a model that is stepped. */
export type TransportAction = "pause" | "step" | "restart";

/** Data of `reactor.queued`. */
export interface Queued {
  /** From 1. */
  readonly position: number;
  readonly total: number;
  /** Seconds until the session begins at the latest; null or absent: not known. */
  readonly wait?: number | null;
  /** Seconds between two beats; absent from an older server. */
  readonly heartbeat?: number;
  readonly reason?: string | null;
}

/** Data of `reactor.admitted`: where a gate has reserved a session. */
export interface Admitted {
  readonly url: string;
  readonly ticket: string;
  readonly session_id?: string;
  readonly claim_within?: number;
}

/** Data of `reactor.ending`: null seconds take the announcement back. */
export interface Ending {
  readonly reason: string;
  readonly seconds: number | null;
}

/** Data of `reactor.late`: code of the model takes long, as in "step 7 has run for 5 s"; with null it does not any more. */
export interface Late {
  readonly what: string | null;
  readonly seconds: number;
}

/** Data of `reactor.bye`. */
export interface Bye {
  readonly reason: string;
  readonly message?: string;
  /** With the reason "refused": the HTTP status, the seconds after which to try again, and the code of the refusal. */
  readonly status?: number | null;
  readonly retry_after?: number | null;
  readonly code?: string | null;
}

/** Data of `reactor.error`. */
export interface ErrorReport {
  readonly code: string;
  readonly message: string;
}

/** Any text message, before its type is known. `n` numbers the server's messages of a session, `id` the client's commands. */
export interface TextMessage {
  readonly type: string;
  readonly id?: number;
  readonly n?: number;
  readonly data?: unknown;
}

/** The runtime's own messages; each other type is a message of the model. */
export type RuntimeMessage =
  | { readonly type: "reactor.queued"; readonly data: Queued }
  | { readonly type: "reactor.admitted"; readonly data: Admitted }
  | { readonly type: "reactor.welcome"; readonly data: Welcome; readonly n?: number }
  | { readonly type: "reactor.state"; readonly data: Settings }
  | { readonly type: "reactor.track"; readonly data: TrackDescription }
  | { readonly type: "reactor.transport"; readonly data: { readonly paused: boolean } }
  | { readonly type: "reactor.moment"; readonly data: WorldChange }
  | { readonly type: "reactor.saved"; readonly data: WorldSaved }
  | { readonly type: "reactor.keyframe"; readonly data: { readonly track: number } }
  | { readonly type: "reactor.cadence"; readonly data: { readonly track: number; readonly every_us: number } }
  | { readonly type: "reactor.ack"; readonly id: number; readonly data: { readonly step: number; readonly reply: unknown } }
  | { readonly type: "reactor.error"; readonly id?: number; readonly data: ErrorReport }
  | { readonly type: "reactor.ending"; readonly data: Ending }
  | { readonly type: "reactor.late"; readonly data: Late }
  | { readonly type: "reactor.bye"; readonly data: Bye }
  | { readonly type: "reactor.beat" };
