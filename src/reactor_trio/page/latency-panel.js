/** The panel that divides the time from a command to its picture into parts: a bar of the medians, and a table. */
import { element } from "./dom.js";
import { PARTS } from "./latency.js";

const DESCRIPTIONS = {
  wait: "until the step that saw the command began",
  step: "the model's step",
  queue: "from the step's end until encoding began",
  encode: "encoding",
  network: "the network in both directions, and everything that is not measured",
  decode: "from arriving here until it was drawn",
};

/** `show` writes a snapshot of `Latency` into the panel `details`, and hides the panel for null. */
export class LatencyPanel {
  #details;
  #summary;
  #bar;
  #cells = new Map();

  constructor(details) {
    this.#details = details;
    this.#summary = details.querySelector("summary span");
    this.#bar = details.querySelector(".bar");
    const body = details.querySelector("tbody");
    body.replaceChildren();
    this.#bar.replaceChildren();
    for (const part of [...PARTS, "total"]) {
      const [p50, p95] = [element("td", { id: `latency-${part}-p50` }), element("td", { id: `latency-${part}-p95` })];
      const slice = part === "total" ? null : this.#bar.appendChild(element("span", { "data-part": part }));
      const mark = part === "total" ? null : element("span", { class: "mark", "data-part": part, "aria-hidden": "true" });
      body.append(element("tr", { title: DESCRIPTIONS[part] }, element("th", { scope: "row" }, mark, part), p50, p95));
      this.#cells.set(part, { p50, p95, slice });
    }
  }

  show(latency) {
    this.#details.hidden = latency === null;
    if (latency === null) return;
    this.#summary.textContent = `p50 ${milliseconds(latency.total.p50)} ms, p95 ${milliseconds(latency.total.p95)} ms`;
    for (const [part, { p50, p95, slice }] of this.#cells) {
      p50.textContent = milliseconds(latency[part].p50);
      p95.textContent = milliseconds(latency[part].p95);
      if (slice) slice.style.flexGrow = latency[part].p50;
    }
    const words = PARTS.map((part) => `${part} ${milliseconds(latency[part].p50)} ms`).join(", ");
    this.#bar.setAttribute("aria-label", `Median: ${words}`);
  }
}

const milliseconds = (value) => value.toFixed(value < 9.95 ? 1 : 0);
