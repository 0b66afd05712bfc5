"""A model that paints its step's number, and what its tests run in a page to read it."""

from __future__ import annotations

MODEL = '''
import numpy as np
from reactor_trio import *


class Pictures(Output):
    main_video: Video
    depth: Video
    speech: Audio


class State(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=1.0)


class Camera(Input):
    camera: Video
    microphone: Audio


class Progress(ModelMessage):
    step: int


class Painter(ReactorPipeline):
    """Paints its step's number: grey levels of 16 for each of four digits, in rows."""

    state: State
    input: Camera
    output: Pictures
    fps = 30
    level = loudness = -1.0
    calls = 0

    async def inference(self):
        number = 0
        while True:
            for frame in self.input.camera.try_read() or ():
                self.level = float(frame.data.mean())
            for block in self.input.microphone.try_read() or ():
                self.loudness = float(abs(block.data).max())
            picture = np.zeros((48, 64, 3), np.uint8)
            for row in range(4):
                picture[row * 12 : row * 12 + 12, :32] = (number >> 4 * row & 15) * 16 + 8
            picture[:, 32:] = round(self.state.brightness * 255)
            yield Pictures(main_video=picture, depth=picture, speech=np.full((1, 1600), 8000, np.int16))
            number += 1

    @event
    def look(self) -> float:
        return self.level

    @event
    def listen(self) -> float:
        return self.loudness

    @event
    def count(self) -> int:
        self.calls += 1
        return self.calls

    @event
    async def size(self, file: UploadedFile) -> int:
        await self.send(Progress(step=7))
        return len(file.data)
'''

#: In the page, before what a test does: `begin` connects a client, to `painter` by default, `number(image)` reads the step's
#: number that the model has painted, `until` waits, and `errors` has what nobody has handled.
PAGE = """
window.errors = [];
addEventListener("error", ({ message }) => errors.push(message));
addEventListener("unhandledrejection", ({ reason }) => errors.push(`unhandled: ${reason}`));
for (const level of ["debug", "log", "info", "warn", "error"]) console[level] = (...what) => errors.push(what.join(" "));
window.number = async (image) => {
  const canvas = new OffscreenCanvas(64, 48);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, 64, 48);
  let value = 0;
  for (let row = 3; row >= 0; row--) value = value * 16 + Math.round((data[((row * 12 + 6) * 64 + 10) * 4] - 8) / 16);
  return value;
};
window.until = (call) => new Promise((resolve, reject) => {
  const facts = () => JSON.stringify([client.state, client.statistics(), diagnostics, errors]);
  setTimeout(() => reject(new Error(`it never came: ${call} ${facts()}`)), 40_000);
  const look = async () => { const value = await call(); if (value) resolve(value); else setTimeout(look, 5); };
  look();
});
window.begin = async ({ server = painter, ...options } = {}) => {
  const { connect } = await import(`${location.origin}/index.js`);
  window.client = connect(server, { memory: null, ...options });
  window.diagnostics = [];
  client.on("diagnostic", ({ code }) => diagnostics.push(code));
  client.on("error", ({ message }) => errors.push(message));
  return client;
};
window.element = (name, properties) => document.body.appendChild(Object.assign(document.createElement(name), properties));
window.canvas = (id) => element("canvas", { id, width: 64, height: 48 });
"""
