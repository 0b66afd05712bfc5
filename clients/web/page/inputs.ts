/** A card for each input track. The card starts and stops the camera or microphone, and shows whether it is live. */
import type { Client, Publication, TrackInfo } from "../src/index.ts";
import { element, type RefusalLine, refusalLine } from "./dom.ts";
import type { Device } from "./overlay.ts";
import { fillIn, INPUTS, number } from "./strings.ts";

const SIZES = ["320×240", "640×480", "1280×720"];
const RATES = [10, 15, 24, 30];
const DEFAULT_SIZE = "640×480";
const DEFAULT_RATE = 30;
const DEFAULT_SAMPLE_RATE = 48_000;
const REFRESH = 500;

export class Inputs {
  #cards: InputCard[];

  /** `tracks` are the inputs of the session that begins; `began` is called when the user has started one. */
  constructor(client: Client, tracks: readonly TrackInfo[], began: () => void) {
    this.#cards = tracks.map((track) => new InputCard(track, client, began));
  }

  /** The cards' elements. */
  get elements(): HTMLElement[] {
    return this.#cards.map((card) => card.element);
  }

  /** For the picture while the model shows none: a button for each device, its choice, and what the camera sees. */
  get calls(): HTMLElement[] {
    return this.#cards.map((card) => card.call);
  }

  /** The devices that are not started. */
  get unstarted(): Device[] {
    return [...new Set(this.#cards.filter((card) => !card.started).map((card) => card.device))];
  }

  /** Stops all inputs. */
  close(): void {
    for (const card of this.#cards) card.stop();
  }
}

/** The elements of a card. Those that may be null belong to one kind of track only. */
interface CardParts {
  readonly button: HTMLButtonElement;
  readonly live: HTMLElement;
  readonly status: HTMLElement;
  readonly preview: HTMLVideoElement | null;
  readonly level: HTMLMeterElement | null;
  readonly size: HTMLSelectElement | null;
  readonly rate: HTMLSelectElement | null;
  readonly source: HTMLSelectElement;
  readonly call: HTMLButtonElement;
  /** The choice of the device beside `call`. */
  readonly callSource: HTMLSelectElement;
  /** What the camera sees, for the user. */
  readonly self: HTMLVideoElement | null;
}

class InputCard {
  readonly element: HTMLElement;
  /** The same for the picture, while the model shows none. */
  readonly call: HTMLElement;
  #track: TrackInfo;
  #words: (typeof INPUTS)[Device];
  #client: Client;
  #began: () => void;
  #run: AbortController | null = null;
  #parts: CardParts;
  #refusal = refusalLine();
  #callRefusal = refusalLine();

  constructor(track: TrackInfo, client: Client, began: () => void) {
    this.#began = began;
    this.#track = track;
    this.#client = client;
    const { name, kind } = track;
    const video = kind === "video";
    const words = (this.#words = INPUTS[this.device]);
    const parts: CardParts = (this.#parts = {
      button: element("button", { type: "button", class: "start" }, words.start),
      live: element("span", { class: "live-mark", hidden: true }, INPUTS.live),
      status: element("small", { class: "input-status", "aria-live": "off" }),
      preview: video ? element("video", { playsinline: true, hidden: true, "aria-label": INPUTS.sent }) : null,
      level: video ? null : element("meter", { min: 0, max: 1, high: 0.95, hidden: true, "aria-label": INPUTS.loudness }),
      size: video ? choice(INPUTS.size, SIZES, startSize(track)) : null,
      rate: video
        ? choice(
            INPUTS.rate,
            RATES.map((fps) => fillIn(INPUTS.fps, { fps })),
            fillIn(INPUTS.fps, { fps: DEFAULT_RATE }),
          )
        : null,
      source: choice(INPUTS.source, [], ""),
      call: element("button", { type: "button", class: "primary" }, words.start),
      callSource: choice(words.which, [], ""),
      self: video ? element("video", { playsinline: true, autoplay: true, hidden: true, "aria-label": INPUTS.self }) : null,
    });
    parts.source.hidden = parts.callSource.hidden = true;
    for (const shown of [parts.preview, parts.self]) if (shown) shown.muted = true;
    parts.button.addEventListener("click", () => (this.#run ? this.stop() : this.start()));
    parts.call.addEventListener("click", () => this.start(this.#callRefusal));
    parts.callSource.addEventListener("change", () => {
      parts.source.value = parts.callSource.value;
      if (this.#run) void this.start();
    });
    parts.source.addEventListener("change", () => {
      parts.callSource.value = parts.source.value;
    });
    for (const select of [parts.size, parts.rate, parts.source]) {
      select?.addEventListener("change", () => this.#run && this.start());
    }
    const row = element("div", { class: "row" }, parts.button, parts.size, parts.rate, parts.source);
    this.element = element(
      "div",
      { class: "control input", "data-input": name },
      element(
        "div",
        { class: "head" },
        element("span", { class: "input-title" }, words.title, " ", name === this.device ? null : element("small", {}, name)),
        parts.live,
      ),
      parts.level,
      element("div", { class: "input-body" }, parts.preview, row),
      parts.status,
      this.#refusal.element,
    );
    this.call = element("div", { class: "call", "data-call": name }, parts.self, parts.call, parts.callSource, this.#callRefusal.element);
    void this.#offerSources("");
  }

  get started(): boolean {
    return this.#run !== null;
  }

  get device(): Device {
    return this.#track.kind === "video" ? "camera" : "microphone";
  }

  get #sampleRate(): number {
    return this.#track.sampleRate ?? DEFAULT_SAMPLE_RATE;
  }

  /** Starts the input, or restarts it with the current choices. `refusal` shows why that failed: where the user has pressed. */
  async start(refusal = this.#refusal): Promise<void> {
    this.stop();
    const { button, call } = this.#parts;
    const run = (this.#run = new AbortController());
    this.#refusal.hide();
    this.#callRefusal.hide();
    button.textContent = INPUTS.cancel;
    call.hidden = true;
    try {
      const publication = await this.#publish(run.signal);
      if (run.signal.aborted) return;
      void publication.ended.then((error) => error && this.#fail(run, error, this.#refusal)); // by then a picture may hide the call
      this.#began();
      this.#showLive(publication, run.signal);
      await this.#offerSources(settingsOf(publication).deviceId ?? "");
    } catch (error) {
      this.#fail(run, error, refusal);
    }
    if (this.#run === run) button.textContent = this.#words.stop;
  }

  stop(): void {
    const { button, live, preview, level, status, call, self } = this.#parts;
    this.#run?.abort();
    this.#run = null;
    this.element.classList.remove("live");
    for (const part of [live, preview, level, self]) if (part) part.hidden = true;
    if (self) self.srcObject = null;
    call.hidden = false;
    status.textContent = "";
    button.textContent = this.#words.start;
  }

  #publish(signal: AbortSignal): Promise<Publication> {
    const { size, rate, source, preview, level } = this.#parts;
    const { name } = this.#track;
    const common = { deviceId: source.value, signal };
    if (size && rate && preview) {
      const [width = 0, height = 0] = size.value.split("×").map(Number);
      preview.style.aspectRatio = `${width} / ${height}`;
      return this.#client.publish(name, "camera", { ...common, width, height, fps: parseInt(rate.value, 10), preview });
    }
    const onLevel = (value: number): void => {
      if (level) level.value = value;
    };
    return this.#client.publish(name, "microphone", { ...common, onLevel });
  }

  #fail(run: AbortController, error: unknown, refusal: RefusalLine): void {
    if (this.#run !== run) return; // the user has stopped or restarted it meanwhile
    this.stop();
    refusal.show(error);
  }

  /** Offers a choice of devices if there are several. Browsers list their names only after the user has allowed one. */
  async #offerSources(chosen: string): Promise<void> {
    const { source, callSource } = this.#parts;
    const all = (await navigator.mediaDevices?.enumerateDevices()) ?? []; // a page of plain http has no devices
    const devices = all.filter(({ kind, deviceId }) => kind === `${this.#track.kind}input` && deviceId);
    for (const select of [source, callSource]) {
      select.replaceChildren(
        ...devices.map(({ deviceId, label }, i) => element("option", { value: deviceId }, label || fillIn(INPUTS.nameless, { n: i + 1 }))),
      );
      select.value = chosen || (devices[0]?.deviceId ?? "");
      select.hidden = devices.length < 2;
    }
  }

  #showLive(publication: Publication, signal: AbortSignal): void {
    const { live, preview, level, status, self } = this.#parts;
    this.element.classList.add("live");
    for (const part of [live, preview, level, self]) if (part) part.hidden = false;
    // People know themselves from mirrors. A camera that looks away from the user shows what the user sees.
    const mirrored = settingsOf(publication).facingMode !== "environment";
    for (const shown of [preview, self]) shown?.classList.toggle("mirrored", mirrored);
    if (self) self.srcObject = publication.media;
    let [sent, since] = [publication.sent, performance.now()];
    const show = (): void => {
      const now = performance.now();
      const { codec } = publication;
      const skipped = publication.skipped ? fillIn(INPUTS.skipped, { n: publication.skipped }) : "";
      const pictures = ((publication.sent - sent) * 1000) / (now - since);
      const video = this.#track.kind === "video";
      status.textContent = `${video ? fillIn(INPUTS.pictures, { fps: number(pictures) }) : INPUTS.sound}${skipped}`;
      status.title = video ? (codec ?? "") : fillIn(INPUTS.quality, { rate: this.#sampleRate / 1000 }); // for those who know
      [sent, since] = [publication.sent, now];
    };
    const timer = setInterval(show, REFRESH);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
}

/** What the publication's device gives: its stream has one track. */
function settingsOf({ media }: Publication): MediaTrackSettings {
  return media.getTracks()[0]?.getSettings() ?? {};
}

function startSize({ width, height }: TrackInfo): string {
  const declared = `${width}×${height}`;
  return width && height ? declared : DEFAULT_SIZE;
}

function choice(label: string, words: readonly string[], chosen: string): HTMLSelectElement {
  const all = words.includes(chosen) || !chosen ? words : [chosen, ...words];
  const select = element("select", { "aria-label": label }, ...all.map((word) => element("option", { value: word }, word)));
  select.value = chosen;
  return select;
}
