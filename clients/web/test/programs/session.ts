// The smallest program without pictures: commands, messages, coming back, files.
import { connect } from "reactor-trio";

const client = connect("https://host/");
client.on("message", ({ type, data }) => document.body.append(type, JSON.stringify(data)));
const file = await client.upload(new Blob());
await client.command("begin", { file });
