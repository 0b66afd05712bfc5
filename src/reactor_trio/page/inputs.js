/**
 * A card for each input track. The card starts and stops the camera or microphone, and shows whether it is live.
 *
 * The page queues no input. It skips and counts a picture while the encoder is busy, and any frame while too many bytes wait
 * to be sent.
 */
import { startCamera } from "./camera.js";
import { CaptureClock, describeRefusal } from "./capture.js";
import { element, refusalLine } from "./dom.js";
import { startMicrophone } from "./microphone.js";
import { KEYFRAME } from "./protocol.js";

const SIZES = ["320×240", "640×480", "1280×720"];
const RATES = [10, 15, 24, 30];
const DEFAULT_SIZE = "640×480";
const DEFAULT_RATE = 30;
const DEFAULT_SAMPLE_RATE = 48_000;
// Unsent bytes above which a frame is skipped. Sound is small, so it has a higher limit and goes on while pictures are skipped.
const MAX_UNSENT = { video: 128 * 1024, audio: 512 * 1024 };
const REFRESH = 500;

export class Inputs {
  clock = new CaptureClock();
  #cards;

  /** `session` is an open session. Only its controlling client may send input. */
  constructor(session, controlling) {
    const tracks = controlling ? session.tracks.filter(({ direction }) => direction === "in") : [];
    this.#cards = tracks.map((track) => new InputCard(track, session, this.clock));
  }

  /** The cards' elements. */
  get elements() {
    return this.#cards.map((card) => card.element);
  }

  /** The names of the devices that are not started: "camera", "microphone". */
  get unstarted() {
    return [...new Set(this.#cards.filter((card) => !card.started).map((card) => card.deviceName))];
  }

  /** Stops all inputs. */
  close() {
    for (const card of this.#cards) card.stop();
  }
}

class InputCard {
  #track;
  #session;
  #clock;
  #run = null;
  #seq = 0;
  #sent = 0;
  #skipped = 0;
  #parts;
  #refusal = refusalLine();
  #keyframe = false;
  #codec = null;

  constructor(track, session, clock) {
    this.#track = track;
    this.#session = session;
    this.#clock = clock;
    session.addEventListener("keyframe", ({ detail }) => { this.#keyframe ||= detail.track === track.index; });
    const { name, kind } = track;
    const video = kind === "video";
    const title = video ? "Camera" : "Microphone";
    const parts = (this.#parts = {
      title,
      button: element("button", { type: "button", class: "start" }, `Start ${title.toLowerCase()}`),
      live: element("span", { class: "live-mark", hidden: true }, "live"),
      status: element("small", { class: "input-status", "aria-live": "off" }),
      preview: video ? element("video", { playsinline: true, hidden: true, "aria-label": `${title}, as sent` }) : null,
      level: video ? null : element("meter", { min: 0, max: 1, high: 0.95, hidden: true, "aria-label": "Loudness" }),
      size: video ? choice("Size", SIZES, startSize(track)) : null,
      rate: video ? choice("Rate", RATES.map((rate) => `${rate} fps`), `${DEFAULT_RATE} fps`) : null,
      source: choice("Source", [], ""),
    });
    parts.source.hidden = true;
    if (parts.preview) parts.preview.muted = true;
    parts.button.addEventListener("click", () => (this.#run ? this.stop() : this.start()));
    for (const select of [parts.size, parts.rate, parts.source]) {
      select?.addEventListener("change", () => this.#run && this.start());
    }
    const row = element("div", { class: "row" }, parts.button, parts.size, parts.rate, parts.source);
    this.element = element(
      "div", { class: "control input", "data-input": name },
      element("div", { class: "head" }, element("span", { class: "input-title" }, title, " ", element("small", {}, name)), parts.live),
      parts.level,
      element("div", { class: "input-body" }, parts.preview, row),
      parts.status, this.#refusal.element,
    );
  }

  get started() {
    return this.#run !== null;
  }

  get deviceName() {
    return this.#parts.title.toLowerCase();
  }

  get #sampleRate() {
    return this.#track.sample_rate ?? DEFAULT_SAMPLE_RATE;
  }

  /** Starts the input, or restarts it with the current choices. */
  async start() {
    this.stop();
    const { button, source } = this.#parts;
    const run = (this.#run = new AbortController());
    this.#refusal.hide();
    button.textContent = "Cancel";
    const sink = {
      next: (busy) => this.#next(busy),
      takeKeyframe: () => this.#takeKeyframe(),
      deliver: (number, at, meta, payload, key = true) => this.#deliver(number, at, meta, payload, key),
      ended: (error) => this.#fail(run, error),
    };
    try {
      const stream = await this.#open(sink, run.signal);
      if (run.signal.aborted) return;
      this.#showLive(run.signal);
      await offerSources(source, this.#track.kind, stream);
    } catch (error) {
      this.#fail(run, error);
    }
    if (this.#run === run) button.textContent = `Stop ${this.deviceName}`;
  }

  stop() {
    const { button, live, preview, level, status } = this.#parts;
    this.#run?.abort();
    this.#run = null;
    this.element.classList.remove("live");
    for (const part of [live, preview, level]) if (part) part.hidden = true;
    status.textContent = "";
    button.textContent = `Start ${this.deviceName}`;
  }

  #open(sink, signal) {
    const { size, rate, source, preview, level } = this.#parts;
    const deviceId = source.value;
    if (this.#track.kind === "video") {
      const [width, height] = size.value.split("×").map(Number);
      const codecs = this.#track.codecs ?? [];
      preview.style.aspectRatio = `${width} / ${height}`;
      const wanted = { width, height, rate: parseInt(rate.value, 10), deviceId, codecs };
      return startCamera(wanted, preview, sink, signal);
    }
    return startMicrophone({ sampleRate: this.#sampleRate, deviceId }, (value) => { level.value = value; }, sink, signal);
  }

  #fail(run, error) {
    if (this.#run !== run) return; // the user has stopped or restarted it meanwhile
    this.stop();
    this.#refusal.show({ message: describeRefusal(this.deviceName, error, globalThis) });
  }

  #showLive(signal) {
    const { live, preview, level, status } = this.#parts;
    this.element.classList.add("live");
    for (const part of [live, preview, level]) if (part) part.hidden = false;
    let [sent, since] = [this.#sent, performance.now()];
    const show = () => {
      const now = performance.now();
      const skipped = this.#skipped ? `, ${this.#skipped} skipped` : "";
      const pictures = ((this.#sent - sent) * 1000) / (now - since);
      const codec = this.#codec && this.#codec !== "jpeg" ? ` of ${this.#codec}` : "";
      const rate = this.#track.kind === "video" ? `${pictures.toFixed(0)} fps${codec}` : `${this.#sampleRate / 1000} kHz`;
      status.textContent = `sending ${rate}${skipped}`;
      [sent, since] = [this.#sent, now];
    };
    const timer = setInterval(show, REFRESH);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  #next(busy) {
    const number = this.#seq++;
    if (!busy && this.#session.bufferedAmount <= MAX_UNSENT[this.#track.kind]) return number;
    this.#skipped += 1;
    return null;
  }

  #takeKeyframe() {
    const wanted = this.#keyframe;
    this.#keyframe = false;
    return wanted;
  }

  #deliver(seq, at, meta, payload, key) {
    const { index } = this.#track;
    this.#codec = meta.codec;
    const packet = { track: index, seq, ptsUs: this.#clock.pts(index, at), flags: key ? KEYFRAME : 0, meta, payload };
    if (this.#session.push(packet)) this.#sent += 1;
  }
}

function startSize({ width, height }) {
  const declared = `${width}×${height}`;
  return width && height ? declared : DEFAULT_SIZE;
}

function choice(label, words, chosen) {
  const all = words.includes(chosen) || !chosen ? words : [chosen, ...words];
  const select = element("select", { "aria-label": label }, ...all.map((word) => element("option", { value: word }, word)));
  select.value = chosen;
  return select;
}

/** Offers a choice of devices if there are several. Browsers list their names only after the user has allowed one. */
async function offerSources(select, kind, stream) {
  const devices = (await navigator.mediaDevices.enumerateDevices()).filter((device) => device.kind === `${kind}input` && device.deviceId);
  select.replaceChildren(...devices.map(({ deviceId, label }, i) => element("option", { value: deviceId }, label || `source ${i + 1}`)));
  select.value = stream.getTracks()[0].getSettings().deviceId;
  select.hidden = devices.length < 2;
}
