/** Opening and leaving the WebSocket of a session, and the addresses that belong to it. */
import type { Role } from "./messages.ts";

export const SUBPROTOCOL = "reactor.v1";
/** Of `WebSocket.readyState`. */
const CONNECTING = 0;
export const OPEN = 1;
/** The close code of a link that is given up: a page may not close with 1001, or 1002. */
export const ABANDONED = 4000;

/** A list of codecs, best first, also comma-separated; ["none"] for no track of this kind. */
export type CodecList = string | readonly string[];

type OpenWebSocket = new (url: string, protocols: string[]) => WebSocket;

/** How to ask for a session. */
export interface SocketOptions {
  /** The WebSocket address without a query. */
  url: string | URL;
  video?: CodecList | undefined;
  audio?: CodecList | undefined;
  role?: Role | undefined;
  model?: string | undefined;
  token?: string | null | undefined;
  resume?: string | null | undefined;
  after?: number | null | undefined;
  feedback?: boolean | undefined;
  /** Whether a viewer follows the event `cadence`. */
  cadence?: boolean | undefined;
  /** Other codecs for video tracks by name. */
  tracks?: { readonly [name: string]: CodecList } | undefined;
  /** Begin without video; `requestVideo` asks for it. The tracks are announced, which they are not with `video` "none". */
  paused?: boolean | undefined;
  /** Whether this client follows a gate to a replica. */
  follow?: boolean | undefined;
  /** Ask for a `reactor.beat` in each heartbeat interval in which the server sends nothing else. */
  beat?: boolean | undefined;
  /** Ask to be told a refusal as `reactor.bye` with the reason "refused", because a page may not read the status of a refused WebSocket. */
  refusalsAsBye?: boolean | undefined;
  /** Ask to be told when the world becomes that of an earlier moment, and what this client may do with worlds. */
  worlds?: boolean | undefined;
  /** Begin at the world of a fork, by its token, or at a saved world, by its id. */
  fork?: string | undefined;
  world?: string | undefined;
  WebSocket?: OpenWebSocket | undefined;
}

/** Opens a WebSocket that requests a session; the options are those of `connect`. */
export function openSocket({
  url,
  video = "jpeg",
  tracks = {},
  paused = false,
  audio,
  role,
  model,
  token,
  resume,
  after,
  feedback = false,
  cadence = false,
  follow = false,
  beat = false,
  refusalsAsBye = false,
  worlds = false,
  fork,
  world,
  WebSocket = globalThis.WebSocket,
}: SocketOptions): WebSocket {
  const address = new URL(url);
  const query = {
    video,
    audio,
    role,
    model,
    token,
    resume,
    after: resume && String(after),
    feedback,
    cadence: cadence && role === "viewer",
    follow,
    beat,
    refusals: refusalsAsBye && "bye",
    paused,
    worlds,
    fork,
    world,
    ...Object.fromEntries(Object.entries(tracks).map(([name, codecs]) => [`video.${name}`, codecs])),
  };
  for (const [name, value] of Object.entries(query)) {
    const text = value === true ? "1" : String(value || "");
    if (text) address.searchParams.set(name, text);
  }
  return new WebSocket(address.href, [SUBPROTOCOL]);
}

/** Closes a socket; one that still connects as soon as it is open, because a browser writes an error on the console for any sooner. */
export function leave(socket: WebSocket, code: number): void {
  if (socket.readyState === CONNECTING) socket.addEventListener("open", () => socket.close(code));
  else socket.close(code);
}

/** The address of the page that belongs to the WebSocket at `url`; the server's other paths are relative to it. */
export function pageOf(url: string | URL): URL {
  const address = new URL(".", url);
  address.protocol = address.protocol.replace("ws", "http");
  return address;
}
