// The parts of inputs that need no document: capture times, rates, positions, uploads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeSize, misfit } from "../page/upload-field.ts";
import { Uploads } from "../page/uploads.ts";
import { upload as sendFile } from "../src/client/upload.ts";
import { readField } from "../src/controls/field.ts";
import { contentBox, relativePosition } from "../src/controls/pointer.ts";
import { readCommands } from "../src/controls/schema.ts";
import { CaptureLatency } from "../src/figures/capture-latency.ts";
import { describeRefusal } from "../src/input/capture.ts";
import { CaptureClock } from "../src/input/capture-clock.ts";
import { crop, FrameRateLimiter } from "../src/input/streams.ts";
import { UploadRefused } from "../src/wire/errors.ts";
import type { CommandDescription, JsonSchema } from "../src/wire/messages.ts";

test("times count from the first packet of any track, and grow strictly in each", () => {
  const clock = new CaptureClock();
  assert.equal(clock.at(0), null);
  assert.deepEqual([clock.pts(1, 500), clock.pts(1, 533.3333), clock.pts(2, 520)], [0, 33_333, 20_000]);
  assert.deepEqual([clock.pts(1, 533.3333), clock.pts(1, 510), clock.pts(1, 600)], [33_334, 33_335, 100_000]);
  assert.equal(clock.pts(3, 480), 0); // captured before the first packet was sent
  assert.equal(clock.at(20_000), 520);
});

test("latency is from capturing to the first picture made with it", () => {
  const clock = new CaptureClock();
  const latency = new CaptureLatency(clock);
  const shown = (pts: number | undefined, now: number): void =>
    latency.shown({ meta: pts === undefined ? {} : { input_pts_us: pts } }, now);
  shown(0, 990); // of another client: nothing was captured here yet
  assert.equal(latency.snapshot(), null);
  clock.pts(1, 1000);
  shown(undefined, 1010);
  shown(0, 1040);
  assert.deepEqual(latency.snapshot(), { last: 40, p50: 40 });
  shown(0, 1080); // the same input again
  shown(33_000, 1083);
  assert.deepEqual(latency.snapshot(), { last: 50, p50: 45 });
  shown(20_000, 1090); // older than one that was shown
  for (const meta of [null, { input_pts_us: "x" }]) latency.shown({ meta }, 2000);
  assert.deepEqual(latency.snapshot(), { last: 50, p50: 45 });
});

test("the frame rate limiter selects pictures evenly", () => {
  const taken = (camera: number, rate: number): number => {
    const wanted = new FrameRateLimiter(rate);
    return Array.from({ length: 120 }, (_, i) => wanted.wants((i * 1000) / camera)).filter(Boolean).length;
  };
  assert.deepEqual([taken(30, 30), taken(60, 30), taken(25, 30), taken(30, 10)], [120, 60, 120, 40]);
  const wanted = new FrameRateLimiter(30);
  assert.deepEqual(
    [0, 28, 70, 98].map((now) => wanted.wants(now)),
    [true, true, true, true],
  ); // an uneven camera
  assert.deepEqual(
    [5000, 5010, 5020, 5034].map((now) => wanted.wants(now)),
    [true, false, false, true],
  ); // after a pause
});

test("a picture is cut to the wanted shape around its middle", () => {
  assert.deepEqual(crop(1280, 720, 640, 480), [160, 0, 960, 720]);
  assert.deepEqual(crop(480, 640, 640, 480), [0, 140, 480, 360]);
  assert.deepEqual(crop(640, 480, 640, 480), [0, 0, 640, 480]);
});

test("errors of a device are explained", () => {
  const words = (name: string, context?: { isSecureContext: boolean }): string =>
    describeRefusal("camera", Object.assign(new Error("why"), { name }), context);
  assert.match(words("NoMediaDevices", { isSecureContext: false }), /https or of localhost/);
  assert.equal(words("NoMediaDevices", { isSecureContext: true }), "This browser gives pages no camera.");
  assert.match(words("NotAllowedError"), /refused the camera/);
  assert.equal(words("Error"), "The camera failed: why");
});

test("positions are relative to the picture as drawn", () => {
  const drawn = contentBox({ left: 10, top: 20, width: 400, height: 100 }, 200, 100);
  assert.deepEqual(drawn, { left: 110, top: 20, width: 200, height: 100 });
  assert.deepEqual(relativePosition(drawn, { clientX: 160, clientY: 70 }), { x: 0.25, y: 0.5, inside: true });
  assert.deepEqual(relativePosition(drawn, { clientX: 110, clientY: 120 }), { x: 0, y: 1, inside: true });
  assert.deepEqual(relativePosition(drawn, { clientX: 60, clientY: 200 }), { x: 0, y: 1, inside: false });
  const box = { left: 0, top: 0, width: 100, height: 300 };
  assert.deepEqual(contentBox(box, 200, 100), { left: 0, top: 125, width: 100, height: 50 });
  assert.deepEqual(contentBox(box, 200, 100, "cover"), { left: -250, top: 0, width: 600, height: 300 });
  assert.deepEqual(contentBox(box, 200, 100, "fill"), box);
  assert.deepEqual(contentBox(box, 200, 100, "none"), { left: -50, top: 100, width: 200, height: 100 });
  assert.deepEqual(contentBox(box, 200, 100, "scale-down"), { left: 0, top: 125, width: 100, height: 50 });
  assert.deepEqual(contentBox(box, 20, 10, "scale-down"), { left: 40, top: 145, width: 20, height: 10 });
});

test("pointer commands take x and y, files an upload", () => {
  const number = { type: "number", minimum: 0, maximum: 1 };
  const command = (name: string, properties: JsonSchema, required: string[] = []): CommandDescription => ({
    name,
    schema: { type: "object", properties, required },
  });
  const { pointer, actions } = readCommands([
    command("pointer_down", { x: number, y: { type: "number" }, size: number }, ["x", "y"]),
    command("pointer_move", { x: number, y: number, size: number }, ["x", "y", "size"]),
    command("pointer_up", { x: number }),
    command("pointer_left", { x: number, y: number }),
  ]);
  assert.deepEqual(Object.keys(pointer), ["down"]);
  assert.deepEqual(
    actions.map(({ name }) => name),
    ["pointer_move", "pointer_up", "pointer_left"],
  );
  const upload = { type: "object", "x-reactor": "upload", accept: "image/*", title: "Image" };
  const field = readField("image", { anyOf: [{ $ref: "#/$defs/U" }, { type: "null" }] }, { root: { $defs: { U: upload } } });
  assert.ok(field.kind === "upload");
  assert.deepEqual([field.kind, field.nullable, field.accept, field.title], ["upload", true, "image/*", "Image"]);
  const listed = readField("image", {
    anyOf: [{ type: "object", "x-reactor": "upload" }, { type: "null" }],
    accept: ["image/*", "text/plain"],
  });
  assert.ok(listed.kind === "upload");
  assert.equal(listed.accept, "image/*,text/plain");
});

interface FakeAnswer {
  status?: number;
  statusText?: string;
  responseText?: string;
  refusal?: string;
}

class FakeRequest extends EventTarget {
  static last: FakeRequest;
  upload = new EventTarget();
  aborted = false;
  refusal: string | null = null;
  line: string[] = [];
  body: unknown;

  constructor() {
    super();
    FakeRequest.last = this;
  }

  open(...line: string[]): void {
    this.line = line;
  }
  send(body: unknown): void {
    this.body = body;
  }
  abort(): void {
    this.aborted = true;
  }
  getAllResponseHeaders(): string {
    return `content-type: text/plain\r\n${this.refusal === null ? "" : `reactor-refusal: ${this.refusal}\r\n`}server: x\r\n`;
  }
  reports(loaded: number, total: number): void {
    this.upload.dispatchEvent(Object.assign(new Event("progress"), { loaded, total }));
  }
  ends(type: string, answer: FakeAnswer = {}): void {
    Object.assign(this, { status: 0, statusText: "", responseText: "", ...answer });
    this.dispatchEvent(new Event(type));
  }
}

interface Going {
  uploads: Uploads;
  cancel: AbortController;
  parts: number[];
  file: File;
  answer: Promise<unknown>;
  request: FakeRequest;
}

function upload(token: string | null = "t"): Going {
  globalThis.XMLHttpRequest = FakeRequest as unknown as typeof XMLHttpRequest;
  const refuse = (...why: ConstructorParameters<typeof UploadRefused>): UploadRefused => new UploadRefused(...why);
  const url = new URL("http://host/at/uploads");
  const uploads = new Uploads(token === null ? null : (file, options) => sendFile(url, token, file, options, undefined, refuse));
  const cancel = new AbortController();
  const parts: number[] = [];
  const file = new File(["x"], "a&b.png");
  const answer = uploads.send(file, (part) => parts.push(part), cancel.signal);
  return { uploads, cancel, parts, file, answer, request: FakeRequest.last };
}

test("an upload reports its progress and the server's answer", async () => {
  const { parts, file, answer, request } = upload();
  assert.deepEqual(request.line, ["POST", "http://host/at/uploads?name=a%26b.png&mime_type=application%2Foctet-stream&token=t"]);
  assert.equal(request.body, file);
  request.reports(25, 100);
  request.reports(100, 100);
  assert.deepEqual(parts, [0.25, 1]);
  request.ends("load", { status: 201, responseText: '{"upload_id": "u", "size": 3}' });
  assert.deepEqual(await answer, { upload_id: "u", size: 3 });
});

test("an upload goes by the application's own fetch although its progress is wanted", async () => {
  globalThis.XMLHttpRequest = class {
    constructor() {
      throw new Error("not by this");
    }
  } as unknown as typeof XMLHttpRequest;
  const parts: number[] = [];
  const fetch = async (): Promise<Response> => new Response('{"upload_id": "u"}', { status: 201 });
  const options = { onProgress: (part: number) => parts.push(part) };
  const refuse = (...why: ConstructorParameters<typeof UploadRefused>): UploadRefused => new UploadRefused(...why);
  assert.deepEqual(await sendFile(new URL("http://host/uploads"), "t", new Blob(["x"]), options, fetch, refuse), { upload_id: "u" });
  assert.deepEqual(parts, [1]);
});

test("a refused upload has the code of the server", async () => {
  const going = upload();
  going.request.ends("load", { status: 429, responseText: "wait", refusal: "uploads_under_way" });
  await assert.rejects(going.answer, { name: "UploadRefused", status: 429, refusal: "uploads_under_way", retryable: true });
});

test("an upload that fails says why", async () => {
  const refused = async (type: string, answer?: FakeAnswer): Promise<string> => {
    const going = upload();
    going.request.ends(type, answer);
    return going.answer.then(
      () => "",
      (error: Error) => error.message,
    );
  };
  assert.equal(await refused("load", { status: 413, responseText: "too large\n" }), "Refused: too large (413)");
  assert.equal(await refused("load", { status: 400, responseText: '{"error": "empty"}' }), "Refused: empty (400)");
  assert.equal(await refused("load", { status: 500, statusText: "Oops" }), "Refused: Oops (500)");
  const page = "\n<html><h1>413 Request Entity Too Large</h1><hr>nginx</html>";
  const tooLarge = "Refused: a proxy in front of the server refuses files of this size (413)";
  assert.equal(await refused("load", { status: 413, statusText: "Request Entity Too Large", responseText: page }), tooLarge);
  assert.equal(await refused("load", { status: 413 }), tooLarge);
  assert.equal(await refused("load", { status: 418, statusText: "I'm a Teapot", responseText: page }), "Refused: I'm a Teapot (418)");
  assert.match(await refused("error"), /broke off the upload/);
  await assert.rejects(upload(null).answer, /takes no uploads/);
});

test("of an answer to an upload no more is read than a server may say", async () => {
  let [given, cancelled] = [0, false];
  const endless = new ReadableStream<Uint8Array>({
    pull(body) {
      body.enqueue(new Uint8Array(4096).fill(120));
      given += 4096;
      if (given === 1 << 20) body.close();
    },
    cancel() {
      cancelled = true;
    },
  });
  const refuse = (...why: ConstructorParameters<typeof UploadRefused>): UploadRefused => new UploadRefused(...why);
  const answered = async (): Promise<Response> => new Response(endless, { status: 503 });
  await assert.rejects(sendFile(new URL("http://host/uploads"), "t", new Blob(["x"]), {}, answered, refuse), {
    message: `Refused: ${"x".repeat(300)} (503)`,
  });
  assert.deepEqual([given < 80_000, cancelled], [true, true]);
  const { answer, request } = upload();
  request.dispatchEvent(Object.assign(new Event("progress"), { loaded: 65_000, total: 0 }));
  assert.equal(request.aborted, false);
  request.dispatchEvent(Object.assign(new Event("progress"), { loaded: 66_000, total: 0 }));
  assert.equal(request.aborted, true);
  await assert.rejects(answer, { name: "UploadRefused", message: /says more than a server of this project/ });
});

test("an upload ends with its button, and all with the session", async () => {
  const one = upload();
  one.cancel.abort();
  await assert.rejects(one.answer, { name: "AbortError" });
  const other = upload();
  other.uploads.close();
  await assert.rejects(other.answer, { name: "AbortError" });
  assert.ok(one.request.aborted && other.request.aborted);
  await assert.rejects(
    other.uploads.send(new File(["x"], "x"), () => {}, new AbortController().signal),
    { name: "AbortError" },
  );
});

test("a drop on the page needs exactly one drop target", () => {
  const send = (): Promise<never> => Promise.reject(new Error("not sent"));
  const uploads = new Uploads(send);
  assert.deepEqual([uploads.needsOwnCard, uploads.onlyDropTarget], [true, null]);
  const take = (): void => {};
  uploads.addDropTarget(take);
  assert.deepEqual([uploads.needsOwnCard, uploads.onlyDropTarget], [false, take]);
  uploads.addDropTarget(take);
  assert.equal(uploads.onlyDropTarget, null);
  const none = new Uploads(null);
  assert.deepEqual([none.needsOwnCard, none.onlyDropTarget], [false, null]);
});

test("sizes read well", () => assert.deepEqual([20, 1234, 5e6, 2e9].map(describeSize), ["20 bytes", "1.2 kB", "5.0 MB", "2.0 GB"]));

test("a file of another kind is refused by what is declared", () => {
  assert.equal(misfit("image/png", ["image/*"]), null);
  assert.equal(misfit("text/plain", []), null);
  assert.equal(misfit("text/plain", ["*/*"]), null);
  assert.equal(misfit("text/x-python", ["image/*"]), "This is not a picture. Choose a PNG or JPEG.");
  assert.equal(misfit("", ["video/*"]), "This is not a video. Choose an MP4 or WebM.");
  assert.equal(misfit("image/png", ["audio/*"]), "This is not a recording. Choose a WAV or MP3.");
  const some = ["image/svg+xml", "application/x-pdf", "video/*"];
  assert.equal(misfit("image/png", some), "This file cannot be used here. It takes: SVG, PDF, videos.");
});
