/** `reactor-trio`: a client for real-time, interactive video models. Nothing happens at import. */
export { connect } from "./client/client.ts";
export { tabMemory } from "./client/memory.ts";
export type * from "./client/model.ts";
export { Replay } from "./client/replay.ts";
export type * from "./client/types.ts";
export { CommandError, ConnectionRefused, MediaError, ReactorError, SessionEnded, UploadRefused } from "./wire/errors.ts";
export type {
  ModelIntroduction,
  ModelSchema,
  Moment,
  SettingPresentation,
  TrackKind,
  TransportAction,
  WorldAction,
  WorldChange,
  WorldInStore,
  WorldList,
} from "./wire/messages.ts";
