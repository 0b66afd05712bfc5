/** The panel that divides the time from a command to its picture into parts: a bar of the medians, and a table. */

import type { Statistics } from "../src/index.ts";
import { element, within } from "./dom.ts";
import { fillIn, number, FIGURES as WORDS } from "./strings.ts";

const PARTS = ["wait", "step", "queue", "encode", "network", "decode"] as const;

type Row = (typeof PARTS)[number] | "total";

const NAMES: { readonly [Name in Row]: string } = { ...WORDS.parts, total: WORDS.total };
const MEANINGS: { readonly [Name in Row]?: string } = WORDS.meanings;

/** `show` writes the client's statistics into the panel `details`, and hides the panel for null. */
export class LatencyPanel {
  #details: HTMLElement;
  #summary: HTMLElement;
  #bar: HTMLElement;
  #cells = new Map<Row, { readonly p50: HTMLElement; readonly p95: HTMLElement; readonly slice: HTMLElement | null }>();

  constructor(details: HTMLElement) {
    this.#details = details;
    this.#summary = within(details, "summary span");
    this.#bar = within(details, ".bar");
    const body = within(details, "tbody");
    body.replaceChildren();
    this.#bar.replaceChildren();
    for (const part of [...PARTS, "total"] as const) {
      const [p50, p95] = [element("td", { id: `latency-${part}-p50` }), element("td", { id: `latency-${part}-p95` })];
      const slice = part === "total" ? null : this.#bar.appendChild(element("span", { "data-part": part }));
      const mark = part === "total" ? null : element("span", { class: "mark", "data-part": part, "aria-hidden": "true" });
      body.append(element("tr", { title: MEANINGS[part] }, element("th", { scope: "row" }, mark, NAMES[part]), p50, p95));
      this.#cells.set(part, { p50, p95, slice });
    }
  }

  show(latency: Statistics["latency"]): void {
    this.#details.hidden = latency === null;
    if (latency === null) return;
    this.#summary.textContent = fillIn(WORDS.summary, { p50: milliseconds(latency.total.p50), p95: milliseconds(latency.total.p95) });
    for (const [part, { p50, p95, slice }] of this.#cells) {
      p50.textContent = milliseconds(latency[part].p50);
      p95.textContent = milliseconds(latency[part].p95);
      if (slice) slice.style.flexGrow = String(latency[part].p50);
    }
    const parts = PARTS.map((part) => fillIn(WORDS.part, { part: WORDS.parts[part], ms: milliseconds(latency[part].p50) })).join(", ");
    this.#bar.setAttribute("aria-label", fillIn(WORDS.median, { parts }));
  }
}

const milliseconds = (value: number): string => number(value, value < 9.95 ? 1 : 0);
