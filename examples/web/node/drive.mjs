// Drives a model without a browser: makes it darker, and keeps the first picture that shows it.
import { writeFile } from "node:fs/promises";
import { connect } from "reactor-trio";

const client = connect(process.argv[2] ?? "http://localhost:8080/", { video: ["jpeg"] });
const pictures = client.packets();
const { model } = await client.ready;
const { step: applied } = await client.command("set_brightness", { brightness: 0.5 });
console.log(`${model} is darker from step ${applied} on`);
for await (const { step, payload } of pictures) {
  if (step < applied) continue;
  await writeFile("picture.jpg", payload);
  console.log(`picture.jpg is of step ${step}`);
  break;
}
await client.close();
