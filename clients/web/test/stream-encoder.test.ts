// The page's encoder for input tracks under Node, with a fake VideoEncoder.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseEncoder, configOf, StreamEncoder } from "../src/input/stream-encoder.ts";

class FakeFrame {
  readonly canvas: unknown;
  readonly timestamp: number;
  constructor(canvas: unknown, { timestamp }: { timestamp: number }) {
    this.canvas = canvas;
    this.timestamp = timestamp;
  }
  close() {}
}

class FakeEncoder {
  static supported = ["vp8", "avc1"];
  static made: FakeEncoder[] = [];
  static async isConfigSupported(config: VideoEncoderConfig): Promise<VideoEncoderSupport> {
    if (config.width > 8000) throw new TypeError("too wide");
    return { supported: FakeEncoder.supported.some((name) => config.codec.startsWith(name)) };
  }
  encodeQueueSize = 0;
  state = "configured";
  encoded: { timestamp: number; keyFrame?: boolean }[] = [];
  readonly output: (chunk: object, metadata?: EncodedVideoChunkMetadata) => void;
  readonly error: (error: Error) => void;
  constructor({ output, error }: { output: FakeEncoder["output"]; error: FakeEncoder["error"] }) {
    this.output = output;
    this.error = error;
    FakeEncoder.made.push(this);
  }
  configure() {}
  encode(frame: FakeFrame, options: VideoEncoderEncodeOptions) {
    if (frame.canvas === "broken") throw new Error("broken");
    this.encoded.push({ ...frame, ...options });
  }
  close() {
    this.state = "closed";
  }
  give(timestamp: number, type: EncodedVideoChunkType, metadata?: EncodedVideoChunkMetadata) {
    this.output({ timestamp, type, byteLength: 2, copyTo: (bytes: Uint8Array) => bytes.set([1, 2]) }, metadata);
  }
}

const Encoder = FakeEncoder as unknown as typeof VideoEncoder;
const Frame = FakeFrame as unknown as typeof VideoFrame;
const canvas = (name: string) => name as unknown as OffscreenCanvas;

interface Told {
  number: number;
  at: number;
  meta: object;
  bytes: number[];
  key: boolean | undefined;
}

function open() {
  const told: Told[] = [];
  let failed = 0;
  const config = configOf("vp8", 64, 48, 30);
  assert.ok(config);
  const stream = new StreamEncoder(
    { codec: "vp8", config },
    (number, at, meta, payload, key) => told.push({ number, at, meta, bytes: [...payload], key }),
    () => {
      failed += 1;
    },
    Encoder,
  );
  const [encoder] = FakeEncoder.made.splice(0);
  assert.ok(encoder);
  return { stream, told, encoder, failures: () => failed };
}

test("the page uses the first codec that the server accepts and the browser encodes", async () => {
  const chosen = async (codecs: string[], width = 640, height = 480) => (await chooseEncoder(codecs, width, height, 30, Encoder))?.codec;
  assert.equal(await chosen(["h264", "vp8", "jpeg"]), "h264");
  assert.equal(await chosen(["vp8", "h264"]), "vp8");
  assert.equal(await chosen(["h264", "vp8"], 65, 49), "vp8"); // an odd size
  assert.equal(await chosen(["vp9", "jpeg", "raw"]), undefined);
  assert.equal(await chosen(["vp8"], 9000), undefined);
  assert.equal(await chooseEncoder(["vp8"], 640, 480, 30, undefined), null);
  const config = (await chooseEncoder(["h264"], 1920, 1080, 30, Encoder))?.config;
  assert.deepEqual([config?.codec, config?.avc?.format, config?.latencyMode], ["avc1.42E033", "annexb", "realtime"]);
});

test("packets have number, time, colours and kind, and dropped pictures are not waited for", () => {
  const { stream, told, encoder } = open();
  stream.encode(canvas("a"), 4, 10, true, Frame);
  stream.encode(canvas("b"), 5, 10, false, Frame); // the same time: times grow all the same
  stream.encode(canvas("c"), 7, 50.5, false, Frame);
  assert.deepEqual(
    encoder.encoded.map(({ timestamp, keyFrame }) => [timestamp, keyFrame]),
    [
      [10000, true],
      [10001, false],
      [50500, false],
    ],
  );
  assert.equal(stream.busy(0), true);
  encoder.give(10000, "key", { decoderConfig: { codec: "vp8", colorSpace: { matrix: "bt709", fullRange: false } } });
  encoder.give(50500, "delta");
  assert.equal(stream.busy(1), false);
  const meta = { codec: "vp8", width: 64, height: 48, matrix: "bt709", full_range: false };
  assert.deepEqual(told, [
    { number: 4, at: 10, meta, bytes: [1, 2], key: true },
    { number: 7, at: 50.5, meta, bytes: [1, 2], key: false },
  ]);
});

test("an encoder that stalls, fails or throws reports one failure", () => {
  const mishaps: ((opened: ReturnType<typeof open>) => void)[] = [
    ({ stream }) => {
      for (const at of [1, 2, 3]) stream.encode(canvas("a"), at, at, false, Frame);
      stream.busy(0);
      stream.busy(2001);
    },
    ({ encoder }) => encoder.error(new Error("gone")),
    ({ stream }) => stream.encode(canvas("broken"), 0, 0, true, Frame),
  ];
  for (const fail of mishaps) {
    const opened = open();
    fail(opened);
    assert.equal(opened.failures(), 1);
    assert.equal(opened.encoder.state, "closed");
    opened.encoder.error(new Error("again"));
    assert.equal(opened.failures(), 1);
  }
  const { stream, encoder, failures } = open();
  stream.close();
  encoder.error(new Error("late"));
  assert.equal(failures(), 0);
});
