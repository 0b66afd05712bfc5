/** The figures: one line in the header, and behind it all of them with the latency's parts. Of one session, a few times a second. */
import type { Client, SessionInfo } from "../src/index.ts";
import { byId, loadStyle } from "./dom.ts";
import type { LatencyPanel } from "./latency-panel.ts";
import { Quality } from "./quality.ts";
import { fillIn, number, STRINGS } from "./strings.ts";

const INTERVAL = 250;

/** Loaded when a command has been answered by a picture; of all sessions. */
let panel: Promise<LatencyPanel> | null = null;

export class Figures {
  #client: Client;
  #tracks: readonly string[];
  #timer: ReturnType<typeof setInterval>;
  #quality = new Quality();
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
    // What came before the link was lost, the model paused, or the session was over, says nothing of now.
    const { state, transport } = this.#client;
    this.#showLine(state.status === "live" && !transport.paused ? main?.fps : null, main?.jitter, commandToPicture?.p50, {
      missing,
      freezes: main?.freezes ?? 0,
    });
    write(byId("figure-lead"), lead === null ? STRINGS.figures.off : fillIn(STRINGS.figures.ms, { ms: number(lead) }));
    set("freezes", main?.freezes ?? 0);
    set("frozen", (main?.frozen ?? 0) / 1000, 1);
    set("steps", stepsDown);
    set("av-offset", soundOffset === null ? null : Math.round(soundOffset)); // rounded first to avoid "-0"
    set("audio-buffer", sound.buffer);
    set("audio-target", sound.target);
    set("audio-underruns", sound.underruns);
    set("audio-lost", sound.lost);
    const format = this.#info?.tracks.find(({ name }) => name === this.#tracks[0]);
    write(byId("figure-format"), format?.width ? `${format.width}×${format.height} ${format.codec}` : (format?.codec ?? ""));
    if (latency && state.status === "live" && !panel)
      panel = Promise.all([import("./latency-panel.ts"), loadStyle("latency.css")]).then(
        ([{ LatencyPanel }]) => new LatencyPanel(byId("latency")),
      );
    panel?.then(
      (shown) => shown.show(latency),
      () => {
        panel = null; // without it there are the other figures
      },
    );
  }

  /** "30 fps · 46 ms", and how well pictures come: what most people want to know. */
  #showLine(
    fps: number | null | undefined,
    jitter: number | null | undefined,
    latency: number | undefined,
    troubles: { readonly missing: number; readonly freezes: number },
  ): void {
    const { figures, quality } = STRINGS;
    const values = { fps: number(fps ?? 0), ms: number(latency ?? 0) };
    const line = latency === undefined ? figures.fps : figures.line;
    write(byId("stats-line"), fps === null || fps === undefined ? figures.none : fillIn(line, values));
    const { grade, why } = this.#client.transport.paused ? this.#quality.pause() : this.#quality.look(fps, jitter, troubles);
    const words = why === null ? "" : quality[why];
    byId("link").dataset.quality = grade;
    for (const each of document.querySelectorAll(".why")) write(each, words);
  }
}

/** Writes a figure; one that was not measured is empty, and style.css hides its row. */
function set(name: string, value: number | null | undefined, digits = 0): void {
  write(byId(`figure-${name}`), value === null || value === undefined ? "" : number(value, digits));
}

/** Writes a text where it is another one: the browser lays a page out again even for the same text. */
function write(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}
