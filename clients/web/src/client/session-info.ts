/** A session's facts in the words of this package. */
import type { TrackDescription } from "../wire/messages.ts";
import type { Session } from "../wire/protocol.ts";
import type { SessionInfo, TrackInfo } from "./types.ts";

export function sessionInfo(session: Session): SessionInfo {
  const { welcome } = session;
  if (welcome === null) throw new TypeError("the session has not begun");
  return Object.freeze({
    id: welcome.session_id,
    url: session.url,
    model: welcome.name,
    role: welcome.role,
    shareToken: welcome.share_token ?? null,
    resumable: Boolean(welcome.resume_token),
    takesFiles: Boolean(welcome.upload_token),
    tracks: session.tracks.map(trackInfo),
    schema: welcome.schema,
  });
}

export function trackInfo({ index, name, kind, direction, codec, width, height, sample_rate, codecs }: TrackDescription): TrackInfo {
  return { index, name, kind, direction, codec, width, height, sampleRate: sample_rate, ...(codecs ? { codecs } : {}) };
}
