// A program with all that one client does in a browser.
import { connect } from "reactor-trio";

const client = connect("https://host/");
const view = client.attach(document.querySelector("canvas") as HTMLCanvasElement);
client.on("message", ({ type, data }) => document.body.append(type, JSON.stringify(data)));
const file = await client.upload(new Blob());
await client.command("begin", { file });
await client.sound.start();
await client.publish("camera", "camera");
await client.publish("microphone", "microphone");
await view.record().stop();
document.body.append(JSON.stringify(client.statistics()));
