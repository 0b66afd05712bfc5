/** The card of all figures, with the latency's parts. Loaded when the first picture is there. */
import type { SessionInfo, Statistics } from "../src/index.ts";
import { byId, write } from "./dom.ts";
import { LatencyPanel } from "./latency-panel.ts";
import { FIGURES, fillIn, number } from "./strings.ts";

export class FiguresPanel {
  #latency = new LatencyPanel(byId("latency"));

  /** `names` are the session's pictures, the first one large; `info` describes the session if one has begun. */
  show(statistics: Statistics, names: readonly string[], info: SessionInfo | null): void {
    const { tracks, latency, commandToPicture, captureToPicture, sound, soundOffset, lead, stepsDown } = statistics;
    const pictures = names.flatMap((name) => tracks[name] ?? []);
    const main = tracks[names[0] ?? ""];
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
    write(byId("figure-lead"), lead === null ? FIGURES.lead.off : fillIn(FIGURES.lead.ms, { ms: number(lead) }));
    set("freezes", main?.freezes ?? 0);
    set("frozen", (main?.frozen ?? 0) / 1000, 1);
    set("steps", stepsDown);
    set("av-offset", soundOffset === null ? null : Math.round(soundOffset)); // rounded first to avoid "-0"
    set("audio-buffer", sound.buffer);
    set("audio-target", sound.target);
    set("audio-underruns", sound.underruns);
    set("audio-lost", sound.lost);
    const format = info?.tracks.find(({ name }) => name === names[0]);
    write(byId("figure-format"), format?.width ? `${format.width}×${format.height} ${format.codec}` : (format?.codec ?? ""));
    this.#latency.show(latency);
  }
}

/** Writes a figure; one that was not measured is empty, and style.css hides its row. */
function set(name: string, value: number | null | undefined, digits = 0): void {
  write(byId(`figure-${name}`), value === null || value === undefined ? "" : number(value, digits));
}
