/** What a client publishes may end by itself: its `ended` tells why, and nothing of it goes on. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { connect, MediaError } from "../src/index.ts";
import { scriptedServer } from "../src/testing.ts";

/** A track of a device, of a screen, or of a canvas. */
class Track extends EventTarget {
  readonly kind = "video";
  readyState = "live";

  /** As by the application: without an event. */
  stop(): void {
    this.readyState = "ended";
  }

  /** As by an unplugged device, or by "Stop sharing". */
  end(): void {
    this.stop();
    this.dispatchEvent(new Event("ended"));
  }
}

class Stream {
  readonly #tracks: Track[];

  constructor(tracks: Track[]) {
    this.#tracks = tracks;
  }

  getTracks(): Track[] {
    return this.#tracks;
  }
}

/** A live client of a model with a camera and a microphone; the camera that the user allows is `device`. */
async function live(t: TestContext, device = new Track()) {
  const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator") as PropertyDescriptor;
  const value = { mediaDevices: { getUserMedia: async () => new Stream([device]) } };
  Object.defineProperty(globalThis, "navigator", { value, configurable: true });
  Object.assign(globalThis, {
    MediaStream: Stream,
    OffscreenCanvas: class {
      getContext() {}
    },
  });
  t.after(() => {
    Object.defineProperty(globalThis, "navigator", navigator);
    for (const name of ["OffscreenCanvas", "MediaStream"]) Reflect.deleteProperty(globalThis, name);
  });
  const server = scriptedServer({
    tracks: [
      { name: "camera", direction: "in" },
      { name: "microphone", kind: "audio", direction: "in" },
    ],
  });
  const client = connect("http://model.test/", { WebSocket: server.WebSocket });
  t.after(() => client.close());
  (await server.connection()).welcome();
  return client;
}

const preview = () => ({ async play() {}, requestVideoFrameCallback() {}, srcObject: null }) as unknown as HTMLVideoElement;
const given = (track: Track): MediaStreamTrack => track as unknown as MediaStreamTrack;

for (const source of ["device", "given track"] as const) {
  test(`a ${source} that ends by itself ends its publication, which says so`, async (t) => {
    const track = new Track();
    const client = await live(t, track);
    const element = preview();
    const publication = await client.publish("camera", source === "device" ? "camera" : given(track), { preview: element });
    assert.notEqual(element.srcObject, null);
    track.end();
    const error = await publication.ended;
    assert.ok(error instanceof MediaError);
    assert.deepEqual([error.code, error.retryable], ["ended", false]);
    const name = source === "device" ? "camera" : "track";
    assert.equal(error.message, `The ${name} has ended: it was disconnected, or its use was stopped.`);
    assert.equal(element.srcObject, null);
  });
}

test("a track that has ended already cannot be published, as picture or as sound", async (t) => {
  const client = await live(t);
  const track = new Track();
  track.stop();
  await assert.rejects(client.publish("camera", given(track), { preview: preview() }), { name: "MediaError", code: "ended" });
  await assert.rejects(client.publish("microphone", given(track)), { name: "MediaError", code: "ended" });
});

test("stop() ends a publication without an error; a given track goes on, the capture of a canvas does not", async (t) => {
  const client = await live(t);
  const [track, captured] = [new Track(), new Track()];
  const canvas = { captureStream: () => new Stream([captured]) } as unknown as HTMLCanvasElement;
  for (const source of [given(track), canvas]) {
    const publication = await client.publish("camera", source, { preview: preview() });
    publication.stop();
    assert.equal(await publication.ended, null);
  }
  assert.deepEqual([track.readyState, captured.readyState], ["live", "ended"]);
});

test("of pictures that are pushed while one is encoded the newest follows, and the others are left out", async (t) => {
  const client = await live(t);
  const encoding: ((bytes: Blob) => void)[] = [];
  let open = 0;
  class Canvas {
    getContext() {}
    convertToBlob(): Promise<Blob> {
      return new Promise((resolve) => encoding.push(resolve));
    }
  }
  const createImageBitmap = async (picture: object): Promise<object> => {
    open += 1;
    return { picture, close: () => (open -= 1) };
  };
  Object.assign(globalThis, { OffscreenCanvas: Canvas, createImageBitmap });
  t.after(() => Reflect.deleteProperty(globalThis, "createImageBitmap"));
  const picture = {} as ImageBitmapSource;
  await client.push("camera", new Uint8Array(1)); // its modules are loaded
  const pushed = Array.from({ length: 100 }, () => client.push("camera", picture));
  const done = async (): Promise<void> => {
    encoding.shift()?.(new Blob(["jpeg"]));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
  };
  await new Promise(setImmediate);
  assert.equal(encoding.length, 1);
  await done();
  assert.equal(encoding.length, 1);
  const late = client.push("camera", picture);
  await done();
  assert.equal(encoding.length, 1);
  await done();
  const sent = await Promise.all([...pushed, late]);
  assert.deepEqual(
    sent.flatMap((yes, i) => (yes ? [i] : [])),
    [0, 99, 100],
  );
  assert.equal(open, 0);
  // One that cannot be encoded holds nobody up.
  const broken = client.push("camera", picture);
  const next = client.push("camera", picture);
  await new Promise(setImmediate);
  encoding.shift()?.(null as unknown as Blob);
  await assert.rejects(broken);
  await new Promise(setImmediate);
  await done();
  assert.equal(await next, true);
});
