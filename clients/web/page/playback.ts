/** The buttons that pause the model, make it step, and begin it again: where it allows that, for the client in control. */
import type { Client } from "../src/index.ts";
import { BACK_TO_BEGIN, element, icon } from "./dom.ts";
import { STRINGS } from "./strings.ts";

const WORDS = STRINGS.playback;
const PAUSE = ["M5 3v10M11 3v10"];
const RESUME = ["M4.5 2.8 13 8l-8.5 5.2z"];
const STEP = ["M3.5 3.2 9.5 8l-6 4.8zM12.5 3v10"];

export class Playback {
  #client: Client;
  #place: HTMLElement;
  #failed: (message: string) => void;
  #pause = element("button", { type: "button", id: "pause-toggle" });
  #step = element("button", { type: "button", id: "step" });
  #restart = element("details", { id: "restart" });

  /** `place` gets the buttons; `failed(message)` reports what the server refused. */
  constructor(client: Client, place: HTMLElement, failed: (message: string) => void) {
    this.#client = client;
    this.#place = place;
    this.#failed = failed;
    const { transport } = client;
    this.#pause.addEventListener("click", () => this.#do(transport.paused ? transport.resume() : transport.pause()));
    this.#step.addEventListener("click", () => this.#do(transport.step()));
    const summary = element("summary", { title: WORDS.restart, "aria-label": WORDS.restart });
    summary.append(icon(BACK_TO_BEGIN));
    const choices = (["kept", "fresh"] as const).map((state) => {
      const choice = element("button", { type: "button", "data-state": state }, WORDS[state]);
      choice.addEventListener("click", () => {
        this.#restart.open = false;
        this.#do(transport.restart({ state }));
      });
      return choice;
    });
    this.#restart.append(summary, element("div", { class: "menu" }, ...choices));
    place.append(this.#pause, this.#restart, this.#step);
    name(this.#step, WORDS.step, STEP);
  }

  /** Shows what is allowed now, and whether the model is paused. Call it when a session begins or ends, or the transport changes. */
  show(): void {
    const { allowed, paused } = this.#client.transport;
    this.#place.hidden = allowed.length === 0;
    this.#pause.hidden = !allowed.includes("pause");
    this.#step.hidden = !allowed.includes("step");
    this.#step.disabled = !paused; // unseen, in its place
    this.#restart.hidden = !allowed.includes("restart");
    name(this.#pause, paused ? WORDS.resume : WORDS.pause, paused ? RESUME : PAUSE);
    this.#pause.setAttribute("aria-pressed", String(paused));
  }

  #do(answer: Promise<void>): void {
    answer.catch((error: Error & { readonly code?: unknown }) => error.code !== "ended" && this.#failed(error.message));
  }
}

function name(button: HTMLElement, title: string, lines: readonly string[]): void {
  button.title = title;
  button.setAttribute("aria-label", title);
  button.replaceChildren(icon(lines));
}
