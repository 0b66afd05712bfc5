"""What tests of the web client run in a page, before what they do, to use the model of `painter.py`."""

from __future__ import annotations

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
