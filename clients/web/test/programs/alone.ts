// A program without pictures, whose bundle is one file.
import { connect } from "reactor-trio/session";

const client = connect("https://host/");
client.on("message", ({ type, data }) => document.body.append(type, JSON.stringify(data)));
const file = await client.upload(new Blob());
await client.command("begin", { file });
