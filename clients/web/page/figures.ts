/** The figures: one line in the header, and behind it all of them with the latency's parts. Of one session, a few times a second. */
import type { Client, SessionInfo } from "../src/index.ts";
import { byId } from "./dom.ts";
import { LatencyPanel } from "./latency-panel.ts";
import { fillIn, number, STRINGS } from "./strings.ts";

const INTERVAL = 250;
/** Jitter in parts of the time from one picture to the next: above the first they come unevenly, above the second badly. */
const UNEVEN = 0.4;
const BAD = 1;
/** A freeze or a lost picture counts for the quality for so many looks at the figures. */
const REMEMBERED = 20;

type Quality = keyof typeof STRINGS.quality;

export class Figures {
  #client: Client;
  #tracks: readonly string[];
  #panel = new LatencyPanel(byId("latency"));
  #timer: ReturnType<typeof setInterval>;
  /** How many freezes and losses there were, and how many looks ago there was a new one. */
  #troubles = { count: 0, age: REMEMBERED };
  /** The newest description of the session; it stays when the session is over. */
  #info: SessionInfo | null = null;

  /** `tracks` are the session's pictures, the first one large. */
  constructor(client: Client, tracks: readonly string[]) {
    this.#client = client;
    this.#tracks = tracks;
    this.#timer = setInterval(() => this.#refresh(), INTERVAL);
    queueMicrotask(() => this.#refresh()); // the client's figures begin with the session, right after its welcome
  }

  close(): void {
    clearInterval(this.#timer);
    this.#refresh();
  }

  #refresh(): void {
    this.#info = this.#client.session ?? this.#info;
    const { tracks, latency, commandToPicture, captureToPicture, sound, soundOffset, lead, stepsDown } = this.#client.statistics();
    const pictures = this.#tracks.flatMap((name) => tracks[name] ?? []);
    const main = tracks[this.#tracks[0] ?? ""];
    const missing = pictures.reduce((sum, track) => sum + track.missing, 0);
    const skipped = pictures.reduce((sum, track) => sum + track.skipped, 0);
    set("fps", main?.fps, 1);
    set("jitter", main?.jitter, 1);
    set("latency", commandToPicture?.last);
    set("latency-p50", commandToPicture?.p50);
    set("capture", captureToPicture?.last);
    set("capture-p50", captureToPicture?.p50);
    set("drops", missing + skipped);
    set("gaps", missing);
    set("skipped", skipped);
    // What came before the link was lost, or the session over, says nothing of now.
    this.#showLine(
      this.#client.state.status === "live" ? main?.fps : null,
      main?.jitter,
      commandToPicture?.p50,
      missing + (main?.freezes ?? 0),
    );
    byId("figure-lead").textContent = lead === null ? STRINGS.figures.off : fillIn(STRINGS.figures.ms, { ms: number(lead) });
    set("freezes", main?.freezes ?? 0);
    set("frozen", (main?.frozen ?? 0) / 1000, 1);
    set("steps", stepsDown);
    set("av-offset", soundOffset === null ? null : Math.round(soundOffset)); // rounded first to avoid "-0"
    set("audio-buffer", sound.buffer);
    set("audio-target", sound.target);
    set("audio-underruns", sound.underruns);
    set("audio-lost", sound.lost);
    const format = this.#info?.tracks.find(({ name }) => name === this.#tracks[0]);
    byId("figure-format").textContent = format?.width ? `${format.width}×${format.height} ${format.codec}` : (format?.codec ?? "–");
    this.#panel.show(latency);
  }

  /** "30 fps · 46 ms", and a dot of the quality: what most people want to know. */
  #showLine(fps: number | null | undefined, jitter: number | null | undefined, latency: number | undefined, troubles: number): void {
    const { figures, quality } = STRINGS;
    const rate = fps === null || fps === undefined ? undefined : number(fps);
    let line: string = figures.none;
    if (rate !== undefined)
      line = latency === undefined ? fillIn(figures.fps, { fps: rate }) : fillIn(figures.line, { fps: rate, ms: number(latency) });
    byId("stats-line").textContent = line;
    this.#troubles = { count: troubles, age: troubles > this.#troubles.count ? 0 : this.#troubles.age + 1 };
    let grade: Quality = "none";
    if (fps !== null && fps !== undefined) {
      const uneven = ((jitter ?? 0) * fps) / 1000;
      grade = this.#troubles.age < REMEMBERED || uneven > BAD ? "poor" : uneven > UNEVEN ? "fair" : "good";
    }
    const dot = byId("quality");
    dot.dataset.quality = grade;
    dot.setAttribute("aria-label", quality[grade]);
  }
}

/** Writes a figure; one that was not measured is a dash. */
function set(name: string, value: number | null | undefined, digits = 0): void {
  byId(`figure-${name}`).textContent = value === null || value === undefined ? "–" : number(value, digits);
}
