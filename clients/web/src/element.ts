/**
 * `reactor-trio/element`: defines `<reactor-view>`, a model's picture as an element of the page.
 *
 *     <reactor-view src="https://host/" track="main_video" controls="all" sound muted token="..." viewer></reactor-view>
 *
 * `src` is the address of the server. `controls` binds "keyboard", "pointer", "gamepad" or "all" to the model's commands. `sound` plays the model's sound, from the first gesture on; `muted` stops it meanwhile. With
 * `viewer` the element watches the session of another client; `role="viewer"` and `role="control"` work too, every other `role` is ARIA's. The
 * property `client` has the client, for commands; if a page sets it, the element shows that client and leaves it alone. The element
 * sends the events `state`, `presented` and `message`, whose `detail` is that of the client's; its parts are `canvas`, and `veil`,
 * which lies over the picture and says what the client waits for.
 */
import { connect } from "./client/client.ts";
import { followControls } from "./client/follow-controls.ts";
import type { Client, ClientState, ConnectOptions, View } from "./client/types.ts";
import type { ControlKind } from "./controls/session-controls.ts";

const STYLE = `
:host { display: block; position: relative; background: #000; }
:host([hidden]), [hidden] { display: none !important; }
canvas { display: block; width: 100%; height: 100%; object-fit: contain; }
[part=veil] { position: absolute; inset: 0; display: grid; place-items: center; padding: 1em; text-align: center; color: #fff;
  background: #0008; font: 1em system-ui, sans-serif; }`;

/** Gestures after which browsers play sound. */
const GESTURES = ["pointerup", "keydown"];

const KINDS: readonly ControlKind[] = ["keyboard", "pointer", "gamepad", "all"];

let style: CSSStyleSheet | null = null;

/** What an element has while it is in a document. */
interface Shown {
  readonly client: Client;
  /** What the client was made from; null: it was given. */
  readonly source: string | null;
  /** Aborted when the element shows something else. */
  readonly stop: AbortController;
  canvas: HTMLCanvasElement;
  view: View;
  unbind: () => void;
  /** Whether the element has started the client's sound. */
  sounding: boolean;
  /** Aborted when the sound need not wait for a gesture any more. */
  gesture: AbortController;
}

// Importing this module defines nothing where there is no document.
const Base = (globalThis.HTMLElement ?? class {}) as typeof HTMLElement;

export class ReactorView extends Base {
  static readonly observedAttributes: readonly string[] = ["src", "viewer", "role", "track", "controls", "sound", "muted"];
  #given: Client | null = null;
  #shown: Shown | null = null;
  #veil: HTMLElement;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    style ??= sheet();
    root.adoptedStyleSheets = [style];
    this.#veil = document.createElement("div");
    this.#veil.part.add("veil");
    this.#veil.setAttribute("role", "status");
    root.append(this.#veil);
  }

  /** The client that is shown; null while the element is in no document, or has neither `src` nor a client. */
  get client(): Client | null {
    return this.#shown?.client ?? this.#given;
  }

  set client(client: Client | null) {
    this.#given = client;
    this.#update();
  }

  /** The view of the picture, for `snapshot` and `record`. */
  get view(): View | null {
    return this.#shown?.view ?? null;
  }

  connectedCallback(): void {
    if (Object.hasOwn(this, "client")) {
      const { client } = this; // set before this module had defined the element
      Reflect.deleteProperty(this, "client");
      this.client = client;
    }
    this.#update();
  }

  /** An element that is only moved keeps its session. */
  disconnectedCallback(): void {
    setTimeout(() => this.#update());
  }

  attributeChangedCallback(name: string): void {
    if (name === "track" && this.#shown !== null) this.#attach(this.#shown);
    else if (name === "controls" && this.#shown !== null) this.#bind(this.#shown);
    else if (name === "sound" || name === "muted") this.#play();
    else this.#update();
  }

  #update(): void {
    const source = this.#given === null ? JSON.stringify([this.getAttribute("src"), this.#role]) : null;
    const before = this.#shown;
    const wanted = this.isConnected && (this.#given !== null || this.hasAttribute("src"));
    if (wanted && before !== null && before.source === source && (source !== null || before.client === this.#given)) return;
    if (before !== null) this.#leave(before);
    if (wanted) this.#show(source);
  }

  #show(source: string | null): void {
    const client = this.#given ?? this.#connect();
    const stop = new AbortController();
    const options = { signal: stop.signal };
    this.#shown = { client, source, stop, ...this.#open(client), sounding: false, gesture: new AbortController() };
    client.on("state", (state) => this.#tell(state), options);
    client.on("message", (message) => this.dispatchEvent(new CustomEvent("message", { detail: message })), options);
    this.#cover(client.state);
    this.#play();
  }

  #connect(): Client {
    const element = this;
    const role = this.#role;
    const options: ConnectOptions = {
      ...(role === undefined ? {} : { role }),
      /** Read at each connection. */
      get token() {
        return element.getAttribute("token") ?? undefined;
      },
    };
    return connect(this.getAttribute("src") ?? "", options);
  }

  get #role(): "control" | "viewer" | undefined {
    if (this.hasAttribute("viewer")) return "viewer";
    const role = this.getAttribute("role");
    return role === "control" || role === "viewer" ? role : undefined; // else it is one of ARIA's
  }

  get #controls(): ControlKind {
    const kind = this.getAttribute("controls") || (this.hasAttribute("controls") ? "all" : "none");
    return KINDS.find((each) => each === kind) ?? "none";
  }

  /** A canvas for each view: once a worker draws on one, it cannot be given to it again. */
  #open(client: Client): Pick<Shown, "canvas" | "view" | "unbind"> {
    const canvas = document.createElement("canvas");
    canvas.part.add("canvas");
    this.#veil.before(canvas);
    const track = this.getAttribute("track");
    const view = client.attach(canvas, {
      ...(track === null ? {} : { track }),
      onPresented: (picture) => this.dispatchEvent(new CustomEvent("presented", { detail: picture })),
    });
    return { canvas, view, unbind: followControls(client, canvas, this.#controls) };
  }

  #attach(shown: Shown): void {
    close(shown);
    Object.assign(shown, this.#open(shown.client));
  }

  /** Binds other controls to the same picture. */
  #bind(shown: Shown): void {
    shown.unbind();
    shown.unbind = followControls(shown.client, shown.canvas, this.#controls);
  }

  #leave(shown: Shown): void {
    this.#shown = null;
    shown.stop.abort();
    silence(shown);
    close(shown);
    if (shown.source !== null) void shown.client.close();
  }

  #tell(state: ClientState): void {
    this.#cover(state);
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }

  #cover(state: ClientState): void {
    this.#veil.textContent = veilText(state);
    this.#veil.hidden = state.status === "live";
  }

  /** Plays the sound, or stops what it has started, as the attributes say. */
  #play(): void {
    const shown = this.#shown;
    if (shown === null) return;
    const wanted = this.hasAttribute("sound") && !this.hasAttribute("muted");
    if (!wanted) silence(shown);
    if (!wanted || shown.sounding) return;
    if (navigator.userActivation?.hasBeenActive === false) {
      shown.gesture.abort();
      shown.gesture = new AbortController();
      const options = { once: true, signal: shown.gesture.signal };
      for (const gesture of GESTURES) addEventListener(gesture, () => this.#play(), options);
      return;
    }
    shown.gesture.abort();
    shown.sounding = true;
    shown.client.sound.start().catch(() => {}); // the client's event `error` says why
  }
}

/** Stops the sound that the element has started; one that a page has started itself goes on. */
function silence(shown: Shown): void {
  shown.gesture.abort();
  if (shown.sounding) void shown.client.sound.stop();
  shown.sounding = false;
}

function close({ canvas, view, unbind }: Shown): void {
  unbind();
  view[Symbol.dispose]();
  canvas.remove();
}

function sheet(): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  return sheet;
}

function veilText(state: ClientState): string {
  switch (state.status) {
    case "connecting":
      return "Connecting …";
    case "queued":
      return `Waiting in line: ${state.position} of ${state.total}`;
    case "live":
      return "";
    case "resuming":
      return "Connecting again …";
    case "restarting":
      return state.reason || "The model restarts …";
    case "waiting":
      return state.error.message;
    case "ended":
      return state.end?.message ?? "The session is over.";
  }
}

declare global {
  interface HTMLElementTagNameMap {
    "reactor-view": ReactorView;
  }
}

if (globalThis.customElements && !customElements.get("reactor-view")) customElements.define("reactor-view", ReactorView);
