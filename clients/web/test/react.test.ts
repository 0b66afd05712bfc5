// The React components where there is no document: a server renders them. tests/web/test_react.py has them in a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement, type ReactNode } from "react";
import { renderToString } from "react-dom/server";
import {
  createHooks,
  Picture,
  type PublicationHook,
  ReactorProvider,
  useClient,
  usePublication,
  useReactorState,
  useSetting,
  useTransport,
  useWorlds,
} from "../src/react.ts";

class NoSocket {
  static opened = 0;
  constructor() {
    NoSocket.opened += 1;
  }
}

function Status(): ReactNode {
  const { status } = useReactorState();
  const { value } = useSetting("brightness");
  const { allowed, paused } = useTransport();
  const { may, change } = useWorlds();
  return `${status} ${String(value)} ${useClient().session} [${allowed.join()}] ${paused} [${may.join()}] ${change}`;
}

function page(url: string, active: boolean): string {
  const props = { url, active, WebSocket: NoSocket as unknown as typeof WebSocket };
  return renderToString(createElement(ReactorProvider, props, createElement(Status), createElement(Picture, { className: "view" })));
}

test("a server renders a page, which connects in the browser alone", async () => {
  assert.equal(page("https://model.test/", true), 'connecting undefined null [] false [] null<div class="view"></div>');
  assert.equal(page("/models/", false), 'ended undefined null [] false [] null<div class="view"></div>');
  await new Promise(setImmediate);
  assert.equal(NoSocket.opened, 0);
});

const painter = createHooks({ name: "painter", schemaHash: "0" });
const Lonely = (): ReactNode => String(painter.useClient());

test("a component without a Provider is told so", () => {
  assert.throws(() => renderToString(createElement(Lonely)), /There is no <ReactorProvider> around this component/);
});

const seen: { publication?: PublicationHook } = {};

function Camera(): ReactNode {
  seen.publication = usePublication("camera");
  return null;
}

test("a publication that is stopped before there is a session does not wait for it", async () => {
  const props = { url: "https://model.test/", WebSocket: NoSocket as unknown as typeof WebSocket };
  renderToString(createElement(ReactorProvider, props, createElement(Camera)));
  const { start, stop } = seen.publication as PublicationHook;
  const started = start();
  stop();
  await assert.rejects(Promise.race([started, new Promise(setImmediate)]), { name: "AbortError" });
});
