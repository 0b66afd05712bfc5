// Calls that must not compile. tsc reports each `@ts-expect-error` that is not needed.
import type { AnyModel, Client, ClientState, Setting } from "reactor-trio";
import { CommandError, connect } from "reactor-trio";
import { connect as connectSession } from "reactor-trio/session";
import { type Painter, painter } from "./painter.ts";

declare const canvas: HTMLCanvasElement;
declare const state: ClientState;
const client = connect("https://host/", { model: painter });

export function commands(): void {
  // @ts-expect-error: no such command
  void client.command("set_brightnes", { brightness: 0.5 });
  // @ts-expect-error: a command's name has its own capitals
  void client.command("Reset");
  // @ts-expect-error: no such argument
  void client.command("set_brightness", { bright: 0.5 });
  // @ts-expect-error: another type
  void client.command("set_brightness", { brightness: "0.5" });
  // @ts-expect-error: no arguments where one is needed
  void client.command("set_brightness");
  // @ts-expect-error: an argument is missing
  void client.command("set_brightness", {});
  // @ts-expect-error: the argument of another command
  void client.command("set_brightness", { mood: "calm" });
  // @ts-expect-error: arguments are an object
  void client.command("set_brightness", 1);
  // @ts-expect-error: one argument too many
  void client.command("set_brightness", { brightness: 0.5, contrast: 1 });
  // @ts-expect-error: no such choice
  void client.command("set_mood", { mood: "angry" });
  // @ts-expect-error: a number is no choice
  void client.command("set_mood", { mood: 1 });
  // @ts-expect-error: null is no number
  void client.command("set_brightness", { brightness: null });
  // @ts-expect-error: undefined is not "left out"
  void client.command("reset", { hard: undefined });
  // @ts-expect-error: an optional argument has its type, too
  void client.command("reset", { hard: "yes" });
  // @ts-expect-error: no such optional argument
  void client.command("reset", { soft: true });
  // @ts-expect-error: this command takes nothing
  void client.command("stop", { now: true });
  // @ts-expect-error: a file's name is no upload
  void client.command("size", { file: "x.png" });
  // @ts-expect-error: the file has no id
  void client.command("size", { file: { name: "x.png" } });
  // @ts-expect-error: a part of a point is missing
  void client.command("draw", { path: [{ y: 1 }] });
  // @ts-expect-error: a point has no z
  void client.command("draw", { path: [{ x: 1, z: 1 }] });
  // @ts-expect-error: one point is no path
  void client.command("draw", { path: { x: 1 } });
  // @ts-expect-error: half a pair
  void client.command("draw", { path: [], pen: [1] });
  // @ts-expect-error: a pair has no third part
  void client.command("draw", { path: [], pen: [1, "a", 2] });
  // @ts-expect-error: a pair in the wrong order
  void client.command("draw", { path: [], pen: ["a", 1] });
  // @ts-expect-error: a branch has children
  void client.command("grow", { tree: { name: "root" } });
  // @ts-expect-error: a branch has children at each depth
  void client.command("grow", { tree: { name: "root", children: [{ name: "twig" }] } });
  // @ts-expect-error: no such option
  void client.command("reset", {}, { timeout: 3 });
  // @ts-expect-error: the answer is a number
  void client.command("size", { file: { upload_id: "u" } }).then(({ reply }) => reply.toUpperCase());
  // @ts-expect-error: the answer is null
  void client.command("set_brightness", { brightness: 1 }).then(({ reply }) => reply.toString());
  // @ts-expect-error: the answer has two parts
  void client.command("draw", { path: [] }).then(({ reply }) => reply[2]);
  // @ts-expect-error: an untyped answer must be looked at first
  void (connect("https://host/") as Client).command("size").then(({ reply }) => reply.toFixed());
}

export function settings(): void {
  // @ts-expect-error: no such setting
  client.setting("contrast");
  // @ts-expect-error: a command that is no setting
  client.setting("reset");
  // @ts-expect-error: the setting's name is without set_
  client.setting("set_brightness");
  // @ts-expect-error: another type
  void client.setting("brightness").set("1");
  // @ts-expect-error: no such choice
  void client.setting("mood").set("angry");
  // @ts-expect-error: the value is not known before the session
  client.setting("brightness").value.toFixed();
  // @ts-expect-error: the server's value cannot be written
  client.setting("brightness").value = 1;
  // @ts-expect-error: a setting of another type
  const mood: Setting<string> = client.setting("brightness");
  return void mood;
}

export function messages(): void {
  client.on("message", (message) => {
    // @ts-expect-error: no such message
    if (message.type === "progres") return;
    // @ts-expect-error: only one of the messages has it
    message.data.done;
    // @ts-expect-error: no such field
    if (message.type === "finished") message.data.done;
  });
  // @ts-expect-error: no such event
  client.on("messages", () => {});
  // @ts-expect-error: another detail
  client.on("diagnostic", (text: string) => text);
}

export function tracks(): void {
  // @ts-expect-error: no such track
  client.attach(canvas, { track: "main" });
  // @ts-expect-error: sound is not shown
  client.attach(canvas, { track: "main_audio" });
  // @ts-expect-error: an input is not shown
  client.attach(canvas, { track: "camera" });
  // @ts-expect-error: an element that is no canvas
  client.attach(document.createElement("video"));
  // @ts-expect-error: sound has no frames
  client.frames("main_audio");
  // @ts-expect-error: an input has no frames
  client.frames("camera");
  // @ts-expect-error: an output takes nothing
  void client.publish("main_video", "camera");
  // @ts-expect-error: the microphone is no source of pictures
  void client.publish("camera", "microphone");
  // @ts-expect-error: samples are not pictures
  void client.push("camera", new Int16Array(1));
  // @ts-expect-error: pictures are not samples
  void client.push("microphone", new Uint8Array(1));
  // @ts-expect-error: no such codec
  client.requestVideo(["h265"]);
}

export function options(): void {
  // @ts-expect-error: no address
  connect();
  // @ts-expect-error: no such role
  connect("https://host/", { role: "admin" });
  // @ts-expect-error: no such policy
  connect("https://host/", { newSession: "always" });
  // @ts-expect-error: undefined is not "left out"
  connect("https://host/", { role: undefined });
  // @ts-expect-error: a token is a text
  connect("https://host/", { token: () => 7 });
  // @ts-expect-error: the constant is for its own model
  connect<AnyModel & { name: "other" }>("https://host/", { model: painter });
  const untyped = connect("https://host/");
  // @ts-expect-error: a client without types is no client of this model
  const other: Client<Painter> = untyped;
  // @ts-expect-error: only a live or resuming client has a session here
  state.session;
  // @ts-expect-error: who reads the state looks at its status first
  if (state.status === "waiting") state.session;
  // @ts-expect-error: the state is read only
  client.state = other.state;
  // @ts-expect-error: errors have no such code
  if (new CommandError("busy", "", "reset").applied === true) return;
}

export function withoutTracks(): void {
  const session = connectSession("https://host/", { model: painter });
  // @ts-expect-error: a client of a session shows no pictures
  session.attach(canvas);
  // @ts-expect-error: no such argument
  void session.command("set_brightness", { bright: 0.5 });
  // @ts-expect-error: it asks for no pictures
  connectSession("https://host/", { video: ["jpeg"] });
}
