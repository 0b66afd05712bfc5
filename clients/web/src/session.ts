/** `reactor-trio/session`: a client for programs without pictures and sound, small in one file. Nothing happens at import. */
export { tabMemory } from "./client/memory.ts";
export type * from "./client/model.ts";
export { connect } from "./client/session-client.ts";
export type {
  Applied,
  ClientEvents,
  ClientState,
  CommandOptions,
  Diagnostic,
  GiveToken,
  LinkStatistics,
  LoadProgress,
  Memory,
  RestoredWorld,
  RewindTo,
  SessionClient,
  SessionClientOptions,
  SessionInfo,
  Setting,
  TrackInfo,
  Transport,
  UploadOptions,
  UploadRef,
  WorldFork,
  Worlds,
} from "./client/types.ts";
export { CommandError, ConnectionRefused, ReactorError, SessionEnded, UploadRefused } from "./wire/errors.ts";
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
