// Calls that must compile, with the types of a model and without them.
import type {
  Args,
  Client,
  ClientState,
  Message,
  ReactorError,
  Reply,
  SessionInfo,
  Setting,
  SettingValue,
  UploadRef,
  View,
} from "reactor-trio";
import { CommandError, ConnectionRefused, connect, SessionEnded, tabMemory } from "reactor-trio";
import { readCommands } from "reactor-trio/controls";
import { connect as connectSession, type SessionClient } from "reactor-trio/session";
import { scriptedServer } from "reactor-trio/testing";
import { type Session, connect as wireConnect } from "reactor-trio/wire";
import { type Mood, type Painter, type Point, type Point2, painter } from "./painter.ts";

declare const canvas: HTMLCanvasElement;
declare const track: MediaStreamTrack;

/** Fails to compile unless both types are the same. */
function same<A, B>(..._equal: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? [] : ["the types differ"]): void {}

export async function typed(): Promise<void> {
  const client = connect("https://host/", { model: painter, token: async (why) => (why === "first" ? "a" : "b"), video: ["h264", "jpeg"] });
  same<typeof client, Client<Painter>>();

  const applied = await client.command("set_brightness", { brightness: 0.5 });
  same<typeof applied.reply, null>();
  same<typeof applied.step, number>();
  await client.command("set_mood", { mood: "calm" });
  await client.command("set_mood", { mood: null });
  await client.command("reset");
  await client.command("reset", {});
  await client.command("reset", { hard: true }, { signal: AbortSignal.timeout(1000) });
  await client.command("reset", undefined, { signal: AbortSignal.timeout(1000) });
  await client.command("stop");
  await client.command("stop", {});
  await client.command("grow", { tree: { name: "a", children: [{ name: "b", children: [] }] } });
  const { reply } = await client.command("draw", { path: [{ x: 1 }, { x: 1, y: 2 }], pen: [1, "b"] });
  same<typeof reply, [Point2, number]>();

  const file: UploadRef = await client.upload(new Blob(["x"]), { name: "x.png", onProgress: (part) => part.toFixed(1) });
  same<(typeof file)["upload_id"], string>();
  const size = await client.command("size", { file });
  same<typeof size.reply, number>();
  await client.command("size", { file: { upload_id: "u" } });

  const session = connectSession("https://host/", { model: painter, newSession: "after-loss" });
  same<typeof session, SessionClient<Painter>>();
  const any: SessionClient<Painter> = client; // what takes the smaller client takes this one, too
  await any.command("set_mood", { mood: "calm" });

  const brightness = client.setting("brightness");
  same<typeof brightness, Setting<number>>();
  same<typeof brightness.value, number | undefined>();
  await brightness.set(1);
  const mood = client.setting("mood");
  same<typeof mood.value, Mood | null | undefined>();
  await mood.set("wild");
  const stop: () => void = mood.subscribe(() => mood.error?.path);
  stop();

  client.on("message", (message) => {
    same<typeof message, Message<Painter>>();
    if (message.type === "progress") same<typeof message.data, { done: number; note: string }>();
    else same<typeof message.data, { seconds: number | null }>();
  });
  client.on("state", (state) => describe(state), { signal: AbortSignal.timeout(1) });
  for await (const message of client.messages()) {
    switch (message.type) {
      case "progress":
        message.data.done.toFixed();
        break;
      case "finished":
        message.data.seconds?.toFixed();
        break;
      default:
        same<typeof message, never>();
    }
  }

  const view: View = client.attach(canvas, { track: "depth", onPresented: ({ seq, meta }) => [seq, meta.anything] });
  view.detach();
  for await (const packet of client.packets("main_audio", { latest: true })) same<typeof packet.payload, Uint8Array<ArrayBuffer>>();
  for await (const frame of client.frames("main_video")) frame.image.close();
  await client.publish("camera", "camera", { width: 640, fps: 15 });
  await client.publish("camera", canvas);
  await client.publish("microphone", "microphone", { onLevel: (level) => level.toFixed() });
  await client.publish("microphone", track);
  await client.push("camera", new Uint8Array(3), { codec: "jpeg" });
  await client.push("camera", new Uint8Array(3), { captureTimeUs: 1 });
  await client.push("microphone", new Int16Array(960), { ptsUs: 0, captureTimeUs: 1 });
  const stream = client.stream({ video: "main_video", audio: false });
  stream[Symbol.dispose]();
  client.requestVideo(false);
  client.requestVideo(["vp8"]);
  await client.sound.start();
  client.sound.volume = 0.5;
  const { latency, tracks } = client.statistics();
  same<number | undefined, NonNullable<typeof latency>["total"]["p50"] | undefined>();
  tracks.main_video?.fps?.toFixed();
  const ended = await client.ended;
  same<typeof ended, SessionEnded | ConnectionRefused | null>();
  await client.close();
  await client[Symbol.asyncDispose]();
}

same<Reply<Painter, "set_brightness">, null>();
same<Reply<Painter, "draw">[1], number>();
same<Args<Painter, "draw">["path"], Point[]>();
same<SettingValue<Painter, "brightness">, number>();
same<SettingValue<Painter, "mood">, Mood | null>();
same<Message<Painter>["type"], "progress" | "finished">();

export async function untyped(): Promise<void> {
  const client: Client = connect(new URL("wss://host/ws"), { model: "painter", memory: tabMemory("here"), newSession: "after-loss" });
  const { reply } = await client.command("anything", { x: [1, "2"] });
  same<typeof reply, unknown>();
  await client.command("nothing");
  const value = client.setting("brightness");
  same<typeof value.value, unknown>();
  await value.set(1);
  client.on("message", ({ type, data }) => {
    same<typeof type, string>();
    same<(typeof data)["field"], unknown>();
  });
  client.attach(canvas, { track: "any_name" });
  await client.publish("camera", "camera");
  await client.push("microphone", new Int16Array(1));
}

function describe(state: ClientState): string | number | SessionInfo | ReactorError | null {
  switch (state.status) {
    case "connecting":
      return state.attempt;
    case "queued":
      return `${state.position} of ${state.total} ${state.reason ?? ""}`;
    case "live":
      return state.session;
    case "resuming":
      return state.since;
    case "restarting":
      return state.reason;
    case "waiting":
      return state.retryAt > 0 ? state.error : null;
    case "ended":
      return state.end;
  }
}

export function errors(error: unknown): string | null {
  if (error instanceof CommandError) return error.applied === "unknown" ? error.code : error.path;
  if (error instanceof ConnectionRefused) return error.code === "busy" ? `${error.retryAfter}` : error.message;
  if (error instanceof SessionEnded) return error.reason;
  return null;
}

export async function others(): Promise<void> {
  const server = scriptedServer({ name: "painter", commands: [{ name: "reset" }] });
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, model: painter });
  const connection = await server.connection();
  connection.welcome();
  connection.ack((await connection.next()).id ?? 0);
  const { schema } = await client.ready;
  same<ReturnType<typeof readCommands>["settings"][number]["name"], string>();
  readCommands(schema.commands);
  const session = wireConnect({ url: "ws://host/ws", video: ["jpeg"] });
  session.addEventListener("frame", ({ detail }) => detail.payload.length);
  same<typeof session, Session>();
}
