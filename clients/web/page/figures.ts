/** The figures: one line in the header, and behind it all of them with the latency's parts. Of one session, a few times a second. */
import type { Client, SessionInfo } from "../src/index.ts";
import { byId, loadStyle, write } from "./dom.ts";
import type { FiguresPanel } from "./figures-panel.ts";
import { Quality } from "./quality.ts";
import { settled } from "./settled.ts";
import { fillIn, number, STRINGS } from "./strings.ts";

const INTERVAL = 250;

/** All figures but the line, of all sessions. The first picture does not need them. */
let panel: Promise<FiguresPanel> | null = null;

async function loadPanel(): Promise<FiguresPanel> {
  await settled;
  const [{ FiguresPanel }] = await Promise.all([import("./figures-panel.ts"), loadStyle("latency.css")]);
  return new FiguresPanel();
}

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
    const statistics = this.#client.statistics();
    const main = statistics.tracks[this.#tracks[0] ?? ""];
    // What came before the link was lost, the model paused, or the session was over, says nothing of now.
    const { state, transport } = this.#client;
    this.#showLine(state.status === "live" && !transport.paused ? main?.fps : null, main?.jitter, statistics.commandToPicture?.p50, {
      missing: this.#tracks.reduce((sum, name) => sum + (statistics.tracks[name]?.missing ?? 0), 0),
      freezes: main?.freezes ?? 0,
    });
    panel ??= loadPanel();
    panel.then(
      (shown) => shown.show(statistics, this.#tracks, this.#info),
      () => {
        panel = null; // the next refresh asks again
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
