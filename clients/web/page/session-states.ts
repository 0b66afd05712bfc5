/** What the page shows of the client's state: the status in the header, and words on the stage while there is no picture. */
import { readCommands } from "../src/controls.ts";
import { type Client, type ClientState, type LoadProgress, SessionEnded } from "../src/index.ts";
import { showIntroduction } from "./about.ts";
import type { AccessToken } from "./access.ts";
import { byId, fill } from "./dom.ts";
import { askIntroduction, diagnose, explain, type Wishes } from "./endings.ts";
import { describeSeconds, Overlay, type OverlayOptions } from "./overlay.ts";
import { Settings } from "./settings.ts";
import { settle } from "./settled.ts";
import { fillIn, plural, STRINGS } from "./strings.ts";
import { Uploads } from "./uploads.ts";

const LOADING_AGAIN = 1000; // until the page asks again how far the model's load is
const REFUSED_AGAIN = 4000; // until the next try after a refusal that the client takes for final and the page does not

type StateOf<Status extends ClientState["status"]> = ClientState & { status: Status };

/** Told that the session was lost (`why` is null), or why it has failed, with the reason for which the model is loaded again. */
type Failed = (why: string | null, reason: string | null) => void;

export class SessionStates {
  #client: Client;
  #access: AccessToken;
  #wishes: Pick<Wishes, "model" | "role">;
  #failed: Failed;
  /** Whether the last session has ended, or its model is loaded again, because of a failure. */
  #hasFailed = false;
  #overlay = new Overlay(byId("overlay"), byId("overlay-art"), byId("overlay-text"), byId("overlay-note"));
  #tokenField = byId("access-token", HTMLInputElement);
  /** What was asked last for what the model says of itself. */
  #introduced = "";
  /** Whether the server has said last that the model loads. */
  #loads = false;
  /** Whether this page has watched a session. */
  #watched = false;

  /** `access` has the token, and gets the one that the user is asked for; `wishes` is what the page's address asks for. */
  constructor(client: Client, access: AccessToken, wishes: Pick<Wishes, "model" | "role">, failed: Failed) {
    this.#client = client;
    this.#access = access;
    this.#wishes = wishes;
    this.#failed = failed;
    byId("reconnect").addEventListener("click", () => client.reconnect());
    byId("access").addEventListener("submit", (event) => {
      event.preventDefault();
      access.set(this.#tokenField.value.trim());
      this.#tokenField.value = "";
      client.reconnect();
    });
  }

  /** Shows a state of the page. `text` goes over the picture (null: nothing), with the options `how` of the overlay. */
  show(state: string, status: string, text: Parameters<Overlay["show"]>[1] | null = null, how: OverlayOptions = {}): void {
    this.#loads = false;
    if (state === "live") [this.#hasFailed, this.#watched] = [false, this.#wishes.role === "viewer"];
    document.body.dataset.state = state;
    if (text !== null && state !== "live" && how.art) settle(); // no picture is near
    byId("status").textContent = status;
    if (text === null) this.#overlay.hide();
    else this.#overlay.show(status, text, how);
    byId("reconnect").hidden = state !== "ended";
    document.getElementById("play")?.remove();
    byId("access").hidden = true;
    // Commands wait while the session resumes; those who watch see the settings.
    const may = (state === "live" || state === "resuming") && this.#client.session?.role !== "viewer";
    for (const id of ["presets", "slots", "controls"]) byId(id, HTMLFieldSetElement).disabled = !may;
  }

  /** Shows that the session's link is lost and is coming back. */
  showResuming(): void {
    this.show("resuming", STRINGS.status.reconnecting, STRINGS.reconnecting, { note: STRINGS.reconnectingNote, art: "lost" });
  }

  /** Shows why there is no session. */
  showWithoutSession(state: Exclude<ClientState, { status: "live" | "resuming" }>): void {
    switch (state.status) {
      case "connecting":
        if (this.#loads) break; // the stage says what is known, and not that this asks again
        this.show("connecting", STRINGS.status.connecting, STRINGS.connecting);
        break;
      case "queued":
        this.#showQueue(state);
        break;
      case "restarting":
        this.#showReload(state);
        if (state.reason && !this.#hasFailed) {
          this.#failed(`${STRINGS.reloading}: ${state.reason}`, state.reason);
          this.#hasFailed = true;
        }
        break;
      default:
        void this.#showEnd(state);
    }
  }

  #showQueue({ position, total, reason, wait }: StateOf<"queued">): void {
    void this.#introduce("schema");
    const { queue, status } = STRINGS;
    const before = position > 1 ? plural(queue.before, position - 1) : queue.next;
    const begins = wait === null ? queue.note : fillIn(queue.wait, { time: describeSeconds(Math.ceil(wait)) });
    const note = this.#hasFailed ? `${STRINGS.queuedAgain} ${begins}` : begins;
    const details = [total > 1 ? fillIn(queue.place, { position, total }) : "", reason].filter(Boolean).join(": ");
    this.show("queued", status.waiting, before, { art: "queue", note, details });
  }

  #showReload({ reason, progress }: StateOf<"restarting">): void {
    const words = `${STRINGS.reloading}${reason ? `: ${reason}` : "."}`;
    this.#showLoading(STRINGS.status.reloading, words, progress ?? { fraction: null, text: "" });
  }

  #showLoading(status: string, words: string, { fraction, text }: LoadProgress): void {
    void this.#introduce("schema?format=about"); // the rest is not known before
    const percent = fraction === null ? "" : fillIn(STRINGS.loadingDone, { percent: Math.floor(fraction * 100) });
    const note = [percent, text].filter(Boolean).join(" · ");
    this.show("connecting", status, words, { art: "loading", fraction, note });
    this.#loads = true;
  }

  /** Shows how far the model's load is, as long as the client's state is `state`. */
  async #followLoading(state: StateOf<"waiting">): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, LOADING_AGAIN));
    if (this.#client.state !== state) return;
    const { loading, text } = await diagnose(document.baseURI, { ...this.#wishes, token: this.#access.token, letIn: true });
    if (this.#client.state !== state) return;
    if (loading) {
      this.#showLoading(STRINGS.status.loading, text, loading);
      void this.#followLoading(state);
    } else this.#client.reconnect(); // the model is loaded, or there is another reason now
  }

  /** Shows what the model says of itself while there is no session yet, as far as `path` tells it. */
  async #introduce(path: string): Promise<void> {
    if (this.#introduced === path) return;
    this.#introduced = path;
    const introduction = await askIntroduction(document.baseURI, path, this.#access.token);
    if (!introduction || this.#client.session !== null) return;
    const { name, about, commands = [] } = introduction;
    showIntroduction(name, about);
    const { settings } = readCommands(commands);
    const shown = new Settings(settings, about, (field) => this.#client.setting(field), new Uploads(null), document.baseURI); // to look at
    fill("presets", shown.presets);
    if (byId("settings").hidden) fill("settings", shown.elements);
    shown.close();
  }

  /** The page may find a refusal final that the client would try again, and the other way round. */
  async #showEnd(state: StateOf<"waiting" | "ended">): Promise<void> {
    const client = this.#client;
    const error = state.status === "waiting" ? state.error : state.end;
    if (error === null) return; // the page has closed the client, and shows why
    const wishes: Wishes = { ...this.#wishes, token: this.#access.token, watched: this.#watched };
    let { final, text, note = "", details = "", tokenWanted, kind, loading, linkOver } = await explain(document.baseURI, wishes, error);
    if (client.state !== state) return;
    if (error instanceof SessionEnded) {
      this.#hasFailed = kind === "failed";
      if (kind === "failed" || kind === "lost") this.#failed(this.#hasFailed ? text : null, null);
    } else if (kind === "viewing" && this.#hasFailed) [text, note] = [STRINGS.ends.model_error, STRINGS.nextSession];
    if (loading && state.status === "waiting") {
      this.#showLoading(STRINGS.status.loading, text, loading);
      void this.#followLoading(state as StateOf<"waiting">);
      return;
    }
    let wait: number | null = null;
    if (final) await client.close();
    else if (state.status === "waiting") wait = state.retryAt - performance.now();
    else if (error.code !== "ended") {
      wait = REFUSED_AGAIN;
      setTimeout(() => client.state === state && client.reconnect(), wait);
    }
    const status = STRINGS.status[kind === "failed" ? "failed" : wait === null ? "ended" : "disconnected"];
    this.show("ended", status, text, { wait, note, details, art: kind ?? "ended" });
    if (linkOver) {
      byId("reconnect").hidden = true; // the link is good for nothing else
      const { offerPlay } = await import("./share-link.ts");
      if (client.state.status === "ended") offerPlay(byId("reconnect"));
    }
    if (!tokenWanted) return;
    this.#access.set(null);
    byId("access").hidden = false;
    this.#tokenField.focus();
  }
}
