// What a program may and may not do with the generated types of `Painter` (tests/typegen/test_typegen_text.py).
// Each line below a `@ts-expect-error` must be an error: the compiler refuses a comment that is not needed.
import { connect } from "reactor-trio";
import type { Args, Client, Message, Reply, SettingValue, UploadRef } from "reactor-trio";
import { painter } from "./painter.js";
import type { Mood, Painter, Point } from "./painter.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(..._equal: Equal<A, B> extends true ? [] : [never]): void {}

declare const upload: UploadRef;
const client = connect("ws://127.0.0.1:8080/ws", { model: painter });

// ---- what is right -------------------------------------------------------------------------------------------------

same<typeof client, Client<Painter>>();
await client.command("set_brightness", { brightness: 0.5 });
await client.command("set_mood", { mood: "calm" });
await client.command("set_mood", { mood: null });
await client.command("reset");
await client.command("reset", {});
await client.command("reset", { hard: true });
await client.command("reset", undefined, { signal: new AbortController().signal });
await client.command("stop");
await client.command("stop", {});
await client.command("size", { file: upload });
await client.command("size", { file: { upload_id: "u" } });
await client.command("draw", { path: [{ x: 1 }, { x: 1, y: 2 }] });
await client.command("draw", { path: [], pen: [1, "a"] });
await client.command("grow", { tree: { name: "a", children: [{ name: "b", children: [] }] } });
same<Awaited<ReturnType<typeof client.command<"size">>>["reply"], number>();
same<Reply<Painter, "set_brightness">, null>();
same<Reply<Painter, "draw">[1], number>();
same<Args<Painter, "draw">["path"], Point[]>();
same<SettingValue<Painter, "brightness">, number>();
same<SettingValue<Painter, "mood">, Mood | null>();
await client.setting("brightness").set(1);
await client.setting("mood").set("wild");
client.frames("main_video");
await client.publish("camera", "camera");
await client.publish("microphone", "microphone");
for await (const message of client.messages()) {
  switch (message.type) {
    case "progress":
      same<typeof message.data.done, number>();
      same<typeof message.data.note, string>();
      break;
    case "finished":
      same<typeof message.data.seconds, number | null>();
      break;
    default:
      same<typeof message, never>();
  }
}
same<Message<Painter>["type"], "progress" | "finished">();
// A client without types takes every command, and its replies are unknown.
same<Awaited<ReturnType<ReturnType<typeof connect>["command"]>>["reply"], unknown>();
await connect("ws://127.0.0.1:8080/ws").command("anything", { at: 1 });

// ---- what is wrong -------------------------------------------------------------------------------------------------

// @ts-expect-error: no such command
await client.command("set_contrast", { contrast: 1 });
// @ts-expect-error: no such command
await client.command("Reset");
// @ts-expect-error: the argument is missing
await client.command("set_brightness");
// @ts-expect-error: the argument is missing
await client.command("set_brightness", {});
// @ts-expect-error: the argument has another name
await client.command("set_brightness", { value: 1 });
// @ts-expect-error: there is one argument more
await client.command("set_brightness", { brightness: 1, contrast: 1 });
// @ts-expect-error: text is no number
await client.command("set_brightness", { brightness: "1" });
// @ts-expect-error: null is no number
await client.command("set_brightness", { brightness: null });
// @ts-expect-error: undefined is no number
await client.command("set_brightness", { brightness: undefined });
// @ts-expect-error: a command of another argument
await client.command("set_brightness", { mood: "calm" });
// @ts-expect-error: the arguments are an object
await client.command("set_brightness", 1);
// @ts-expect-error: no such choice
await client.command("set_mood", { mood: "angry" });
// @ts-expect-error: a number is no choice
await client.command("set_mood", { mood: 1 });
// @ts-expect-error: a command without arguments takes none
await client.command("stop", { now: true });
// @ts-expect-error: an optional argument has a type, too
await client.command("reset", { hard: "yes" });
// @ts-expect-error: an optional argument may be left out, not undefined
await client.command("reset", { hard: undefined });
// @ts-expect-error: no such optional argument
await client.command("reset", { soft: true });
// @ts-expect-error: a file is named by its upload
await client.command("size", { file: "cat.png" });
// @ts-expect-error: the file has no id
await client.command("size", { file: { name: "cat.png" } });
// @ts-expect-error: a point needs x
await client.command("draw", { path: [{ y: 1 }] });
// @ts-expect-error: a point has no z
await client.command("draw", { path: [{ x: 1, z: 1 }] });
// @ts-expect-error: one point is no path
await client.command("draw", { path: { x: 1 } });
// @ts-expect-error: the pen has two parts
await client.command("draw", { path: [], pen: [1] });
// @ts-expect-error: the pen has no third part
await client.command("draw", { path: [], pen: [1, "a", 2] });
// @ts-expect-error: the parts of the pen have an order
await client.command("draw", { path: [], pen: ["a", 1] });
// @ts-expect-error: a branch needs its children at each depth
await client.command("grow", { tree: { name: "a", children: [{ name: "b" }] } });
// @ts-expect-error: the reply is a number
(await client.command("size", { file: upload })).reply.length;
// @ts-expect-error: the reply is null
(await client.command("set_brightness", { brightness: 1 })).reply.toString();
// @ts-expect-error: the reply has two parts
(await client.command("draw", { path: [] })).reply[2];
// @ts-expect-error: no such setting
client.setting("contrast");
// @ts-expect-error: a command that sets nothing is no setting
client.setting("reset");
// @ts-expect-error: the setting has another type
await client.setting("brightness").set("1");
// @ts-expect-error: no such choice
await client.setting("mood").set("angry");
// @ts-expect-error: no such track
client.frames("depth");
// @ts-expect-error: an input is no output
client.frames("camera");
// @ts-expect-error: an output takes nothing
await client.publish("main_video", "camera");
// @ts-expect-error: a microphone is no camera
await client.publish("camera", "microphone");
for await (const message of client.messages()) {
  // @ts-expect-error: no such message
  message.type === "failed";
  // @ts-expect-error: only one of the messages has this field
  message.data.done;
  // @ts-expect-error: the message has no such field
  if (message.type === "progress") message.data.left;
}
// @ts-expect-error: the reply of a client without types is unknown
(await connect("ws://127.0.0.1:8080/ws").command("size")).reply.length;
// @ts-expect-error: the constant is for its own model
connect<{ name: "other"; commands: {}; messages: {}; outputs: {}; inputs: {} }>("ws://x", { model: painter });
