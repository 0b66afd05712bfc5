/** The page's entry point: shows what a client tells, and gives it what the user does. */
import { readCommands } from "../src/controls.ts";
import type { ReactorError, SessionInfo, TrackInfo } from "../src/index.ts";
import { CommandError, connect } from "../src/index.ts";
import { pageOf } from "../src/wire.ts";
import { showIntroduction } from "./about.ts";
import { AccessToken } from "./access.ts";
import { Ambient } from "./ambient.ts";
import type { SendInSession } from "./controls.ts";
import { actionControl } from "./controls.ts";
import { byId, fill, loadStyle, within } from "./dom.ts";
import { withToken } from "./endings.ts";
import { Figures } from "./figures.ts";
import { callToAction, fileCall, Hands } from "./hands.ts";
import { Hint } from "./hint.ts";
import type { Inputs } from "./inputs.ts";
import { KeyMap } from "./key-map.ts";
import { Keyboard } from "./keyboard.ts";
import { returnFocus } from "./keyboard-focus.ts";
import { type Device, describeWait } from "./overlay.ts";
import { Panel } from "./panel.ts";
import { largeCanvas, Pictures } from "./pictures.ts";
import { Playback } from "./playback.ts";
import { Pointer } from "./pointer.ts";
import { parseCodecs } from "./requested-codecs.ts";
import { Room } from "./room.ts";
import { rove } from "./roving.ts";
import { SessionStates } from "./session-states.ts";
import { Settings, type Values } from "./settings.ts";
import { settle, settled } from "./settled.ts";
import { ShareButton } from "./share-button.ts";
import { SoundButton } from "./sound-button.ts";
import { Stall } from "./stall.ts";
import { SafeStorage } from "./storage.ts";
import { fillIn, number, plural, STRINGS } from "./strings.ts";
import { offerThemes } from "./theme.ts";
import { Toasts } from "./toasts.ts";
import { Toolbar } from "./toolbar.ts";
import { Uploads, uploadCard } from "./uploads.ts";

void settled.then(() => loadStyle("details.css"));
const withMessages = later(() => import("./message-log.ts"));
const toasts = new Toasts(byId("toasts"));
const access = new AccessToken({ location, history, storage: () => globalThis.sessionStorage });
const query = new URLSearchParams(location.search);
const requested = parseCodecs(query.get("video"));
const role = query.get("role") === "viewer" ? "viewer" : undefined;
const model = query.get("model") ?? undefined;

const client = connect(document.baseURI, {
  // Another token than the refused one comes from the user, who is asked for it.
  token: (why) => (why === "first" ? access.token : null),
  fork: access.fork,
  // While the model is loaded again, the client asks /health, which says to those with a token how far that is.
  fetch: (url, options) => fetch(url, { ...withToken(access.token), ...options }),
  newSession: "after-loss",
  pauseHidden: true,
  ...(role ? { role } : {}),
  ...(model ? { model } : {}),
  ...(requested.length ? { video: requested.includes("none") ? false : requested.filter((codec) => codec !== "none") } : {}),
  ...(query.get("audio") === "none" ? { audio: false } : {}),
});

const preferences = new SafeStorage(() => globalThis.localStorage);
offerThemes(byId("theme"), preferences);
const screen = within(document, "main");
const panel = new Panel(screen, byId("panel-toggle"), byId("grip"), preferences);
byId("skip").addEventListener("click", () => panel.focus());
rove(byId("bar"), "button:not([data-state]),summary");
rove(within(byId("presets"), ".list"), "button");
const hero = byId("hero");
const stage = byId("stage");
later(() => import("./idle-bar.ts"))(({ hideWhenIdle }) =>
  hideWhenIdle(stage, byId("bar"), () => document.body.dataset.state === "live" && document.body.dataset.picture === "shown"),
);
const ambient = new Ambient(hero, largeCanvas);
const leadToggle = byId("lead-toggle", HTMLInputElement);
leadToggle.checked = (query.get("lead") ?? preferences.get("lead")) !== "off";
const pictures = new Pictures(client, leadToggle.checked, new Room(preferences), (canvas) => {
  toolbar.pictureShown(canvas);
  ambient.refresh();
  stall.pictureShown();
  if (running?.awaitsPicture) running.pictureShown(); // of any track, because the first track may never have a picture
});
leadToggle.addEventListener("change", () => {
  preferences.set("lead", leadToggle.checked ? "on" : "off");
  pictures.lead = leadToggle.checked;
});

const hint = new Hint();
byId("controls").addEventListener("input", () => hint.done());
const noteFailure = later(async () => new (await import("./failure-notice.ts")).FailureNotice(toasts));
const states = new SessionStates(client, access, { model, role }, (why, reason) => {
  noteFailure((notice) => (why === null ? notice.lost() : notice.failed(reason)));
  if (why !== null) log("error", why);
});
const noteEnding = later(async () => new (await import("./ending-banner.ts")).EndingBanner(byId("ending")));
const share = new ShareButton(byId("share"), say, reportProblem);
const sound = new SoundButton(client.sound);
const toolbar = new Toolbar(
  {
    stage,
    screen,
    snapshot: byId("snapshot", HTMLButtonElement),
    copy: byId("copy", HTMLButtonElement),
    clip: byId("clip", HTMLButtonElement),
    record: byId("record", HTMLButtonElement),
    time: byId("record-time"),
    fullscreen: byId("fullscreen", HTMLButtonElement),
  },
  reportProblem,
  say,
);

const withWorlds = later(
  async () => new (await import("./worlds.ts")).PageWorlds(client, pictures, toasts, stage, byId("tools"), reportProblem),
);
client.on("moment", (change) => withWorlds((worlds) => worlds.changed(change)));
const playback = new Playback(client, byId("transport"), reportProblem);
client.on("transport", () => running?.showPicture());

let running: RunningSession | null = null;
const stall = new Stall(client, () => running?.showPicture());

client.on("state", (state) => {
  if (state.status === "live") {
    if (running !== null)
      running.showPicture(); // it was resumed
    else {
      const { give } = (running = new RunningSession(state.session));
      noteFailure((notice) => notice.begun(give));
    }
    return;
  }
  noteEnding((banner) => banner.hide());
  if (state.status === "resuming") {
    states.showResuming();
    return;
  }
  if (running !== null) {
    const { changed } = running;
    noteFailure((notice) => notice.over(changed));
  }
  running?.close();
  running = null;
  states.showWithoutSession(state);
});

// The user has opened another link to this page in this tab. If only the part behind the `#` differs, the browser does not reload.
addEventListener("hashchange", () => {
  const hidden = new URLSearchParams(location.hash.slice(1));
  if (hidden.has("fork")) void client.close(); // whose place another session takes
  if (hidden.has("fork") || hidden.has("token")) location.reload();
  running?.takeLink();
  if (location.hash === "#api") void running?.showApi();
});
byId("api").addEventListener("click", () => void running?.showApi());
byId("reset-settings").addEventListener("click", () => running?.resetSettings());
byId("copy-settings").addEventListener("click", () => void running?.copySettings());
// What lies over the page closes by Escape, and by a click elsewhere.
const unfolded = (): Iterable<HTMLDetailsElement> => document.querySelectorAll<HTMLDetailsElement>("#stats[open], #restart[open]");
addEventListener("keydown", ({ key }) => {
  if (key === "Escape") for (const each of unfolded()) each.open = false;
});
addEventListener("pointerdown", ({ target }) => {
  for (const each of unfolded()) if (target instanceof Node && !each.contains(target)) each.open = false;
});

client.on("resumed", ({ seconds, missed }) => {
  if (missed > 0) log("error", plural(STRINGS.missed, missed, { seconds: number(seconds, 1) }));
});
client.on("ending", (announced) => noteEnding((banner) => banner.show(announced)));
client.on("message", ({ type, data }) => log(type, data));
client.on("error", (error) => showError(error));
client.on("diagnostic", (diagnostic) => {
  if (diagnostic.code !== "stepped_down") return;
  import("./step-down.ts").then(
    ({ describe }) => log("error", describe(diagnostic)),
    () => {}, // there are pictures
  );
});

/** Errors that answer no command: those of this page's own parts, and those that the server reports. */
function showError({ code, message }: ReactorError): void {
  if (code === "sound") reportProblem(message);
  else if (code === "pictures") reportProblem(fillIn(STRINGS.problems.pictures, { why: message }));
  else log("error", code === "picture" ? message : `${code}: ${message}`);
}

let keyboard: Keyboard | null = null; // of the running session, if its model has keys
returnFocus(largeCanvas, () => keyboard !== null);

/** One session from its welcome to its end. Its pictures and controls stay visible until the next session begins. */
class RunningSession {
  #info: SessionInfo;
  #controlling: boolean;
  #inputs: Inputs | null = null;
  #uploads: Uploads;
  #figures: Figures;
  #settings: Settings | null = null;
  #parts: { close(): void }[];
  #over = false;
  /** Whether no picture was shown yet. */
  awaitsPicture: boolean;

  constructor(info: SessionInfo) {
    this.#info = info;
    const { model: name, schema } = info;
    showIntroduction(name, schema.about);
    this.#controlling = info.role !== "viewer";
    byId("role-note").hidden = this.#controlling;
    if (!this.#controlling)
      import("./share-link.ts").then(
        ({ offerTurn }) => offerTurn(byId("role-note")),
        () => {}, // there is the picture to watch
      );
    pictures.beginSession(info);
    toolbar.beginSession(name, pictures);
    fill("inputs", []);
    byId("capture").hidden = this.#inputTracks.length === 0;
    void this.#showInputs();
    const outputs = info.tracks.filter(({ direction }) => direction === "out");
    sound.show(outputs.some(({ kind }) => kind === "audio"));
    const serverPage = pageOf(info.url);
    share.show(info.shareToken, serverPage);
    const { may } = client.worlds;
    byId("slots").hidden = !may.some((what) => what !== "rewind");
    byId("slots").style.minHeight = preferences.get("slots") ?? "";
    if (may.length) withWorlds((worlds) => worlds.show());
    this.#uploads = new Uploads(info.takesFiles ? (file, options) => client.upload(file, options) : null);
    this.#parts = this.#showControls(schema.commands);
    this.#figures = new Figures(
      client,
      outputs.filter(({ kind }) => kind === "video").map(({ name }) => name),
    );
    this.awaitsPicture = outputs.some(({ kind }) => kind === "video") && !requested.includes("none");
    document.body.dataset.picture = this.awaitsPicture ? "awaited" : "shown";
    this.showPicture();
    this.takeLink();
    byId("api", HTMLButtonElement).disabled = false;
    if (location.hash === "#api") void this.showApi();
  }

  pictureShown(): void {
    this.awaitsPicture = false;
    document.body.dataset.picture = "shown";
    settle();
    if (client.state.status === "live") this.showPicture();
  }

  /** Shows that the session is live, and what it waits for if there is no picture. */
  showPicture(): void {
    const { awaitsPicture } = this;
    const { status } = STRINGS;
    playback.show();
    if (!awaitsPicture) states.show("live", client.transport.paused ? status.paused : this.#controlling ? status.live : status.watching);
    else {
      const art = !this.#controlling ? "viewing" : this.#unstarted.includes("camera") ? "camera" : "warming";
      const forUser = (): boolean => this.#controlling && this.#unstarted.length > 0;
      const words = !this.#controlling ? status.watching : forUser() ? status.waiting : status.starting;
      states.show("live", words, (seconds) => this.#describeWait(seconds), { art, forUser });
    }
  }

  /** Sends the settings that the page's address carries, and takes them out of the address. */
  takeLink(): void {
    if (this.#settings === null || !this.#controlling || !new URLSearchParams(location.hash.slice(1)).has("s")) return;
    void this.#settings.take(location.href);
    history.replaceState(history.state, "", location.href.replace(/#.*$/s, ""));
  }

  /** The settings that this client has changed, for the session after this one. */
  get changed(): Values {
    return (this.#controlling && this.#settings?.changed) || {};
  }

  /** Takes settings of the session before; null for a client that may not set any. */
  get give(): ((values: Values) => void) | null {
    return this.#controlling ? (values) => this.#settings?.give(values) : null;
  }

  /** Shows what programs can send. */
  async showApi(): Promise<void> {
    try {
      const { showApi } = await import("./api-page.ts");
      showApi(screen, this.#info, this.#controlling ? this.#send : null, access.token);
    } catch (error) {
      reportProblem(fillIn(STRINGS.problems.api, { why: (error as Error).message }));
    }
  }

  resetSettings(): void {
    this.#settings?.reset();
  }

  async copySettings(): Promise<void> {
    if (this.#settings === null) return;
    const address = await this.#settings.address(location.href);
    try {
      await navigator.clipboard.writeText(address);
      say(STRINGS.settings.copied);
    } catch {
      history.replaceState(history.state, "", address);
      say(STRINGS.settings.notCopied);
    }
  }

  close(): void {
    this.#over = true;
    this.#figures.close();
    toolbar.endSession();
    playback.show();
    share.show(null);
    for (const part of [this.#uploads, ...this.#parts]) part.close();
    this.#inputs?.close();
    keyboard = null;
  }

  /** The inputs that this client may send. */
  get #inputTracks(): TrackInfo[] {
    return this.#controlling ? this.#info.tracks.filter(({ direction }) => direction === "in") : [];
  }

  /** Shows the cards of the inputs; most models have none, so their code is loaded when it is needed. */
  async #showInputs(): Promise<void> {
    if (this.#inputTracks.length === 0) return;
    try {
      const [{ Inputs }] = await Promise.all([import("./inputs.ts"), loadStyle("inputs.css")]);
      if (this.#over) return;
      this.#inputs = new Inputs(client, this.#inputTracks, () => hint.done());
      fill("inputs", this.#inputs.elements);
      callToAction(this.#inputs.calls);
    } catch (error) {
      reportProblem(fillIn(STRINGS.problems.inputs, { why: (error as Error).message }));
    }
  }

  #describeWait(seconds: number): string {
    const commands = this.#info.schema.commands.length > 0 && !stall.busy;
    return describeWait(seconds, {
      viewing: !this.#controlling,
      unstarted: this.#unstarted,
      commands,
    });
  }

  /** The input devices that are not started. */
  get #unstarted(): readonly Device[] {
    return this.#inputs?.unstarted ?? deviceNames(this.#inputTracks);
  }

  /** Sends a command in this session. What follows it, such as the newest position of a pointer, is not for the session after it. */
  #send: SendInSession = async (name, data) => {
    if (this.#over) throw new CommandError("ended", STRINGS.over, name);
    hint.done();
    try {
      return await client.command(name, data);
    } catch (error) {
      if (error instanceof CommandError && error.code === "ended") this.#over = true;
      throw error;
    }
  };

  /** Shows the controls of the commands, and returns those that must be closed with the session. */
  #showControls(commands: SessionInfo["schema"]["commands"]): { close(): void }[] {
    const all = readCommands(commands);
    const read = this.#controlling ? all : { ...readCommands([]), settings: all.settings }; // to look at
    const { settings, keys, pointer, look, pad, actions } = read;
    const uploads = this.#uploads;
    const send = this.#send;
    const map = new KeyMap(
      keys.map(({ key }) => key),
      this.#info.model,
      preferences,
    );
    keyboard = keys.length ? new Keyboard(keys, send, map) : null;
    const canvas = largeCanvas();
    const onPicture = new Pointer(pointer, send, canvas);
    const { schema } = this.#info;
    hint.begin(schema.about, this.#controlling ? read : null);
    const shown = new Settings(settings, schema.about, (field) => client.setting(field), uploads, document.baseURI);
    this.#settings = shown;
    fill("settings", shown.elements);
    fill("presets", this.#controlling ? shown.presets : []);
    fill("keys", keyboard?.legend() ?? []);
    fill("gamepad", []);
    if (pad.buttons.length || pad.axes)
      void this.#showLater("gamepad", [], async () => new (await import("./gamepad.ts")).Gamepads(pad, send));
    const pointed = Object.keys(pointer).length ? onPicture.legend() : [];
    fill("pointer", pointed);
    if (look) void this.#showLater("pointer", pointed, async () => new (await import("./pointer-lock.ts")).PointerLock(look, send, canvas));
    const cards = actions.map((action) => actionControl(action, send, log, uploads, schema.about?.arguments?.[action.name]));
    if (uploads.needsOwnCard) cards.push(uploadCard(uploads));
    fill("actions", cards);
    const needsFile = settings.some(({ field: { kind, initial, nullable } }) => kind === "upload" && initial === undefined && !nullable);
    callToAction(uploads.onlyDropTarget ? [fileCall(needsFile, uploads.signal)] : []);
    const hands = new Hands({ controls: read, keyboard, preferences, failed: reportProblem });
    return [hands, ...(keyboard ? [keyboard] : []), onPicture, shown];
  }

  /** Shows the legend of what few models have, behind `before`. Its code is loaded when it is needed. */
  async #showLater(part: string, before: readonly HTMLElement[], load: () => Promise<Later>): Promise<void> {
    try {
      const loaded = await load();
      if (this.#over) return loaded.close();
      this.#parts.push(loaded);
      fill(part, [...before, ...loaded.legend()]);
    } catch (error) {
      reportProblem(fillIn(STRINGS.problems.inputs, { why: (error as Error).message }));
    }
  }
}

/** The legend of a part of the page whose code is loaded when a model needs it. */
interface Later {
  close(): void;
  legend(): (HTMLElement | null)[];
}

/** What these inputs are sent from. */
const deviceNames = (inputs: readonly TrackInfo[]): Device[] => [
  ...new Set(inputs.map(({ kind }) => (kind === "video" ? "camera" : "microphone"))),
];

/** Gives what the first picture does not need what it is to show, in order. Without it there is the picture. */
function later<Part>(load: () => Promise<Part>): (what: (part: Part) => void) => void {
  const part = settled.then(load);
  return (what) => void part.then(what, () => {});
}

/** Adds a message of the model, an answer or an error to the list. */
function log(type: string, content: unknown): void {
  const time = new Date();
  withMessages((list) => list.log(time, type, content));
}

/** Tells the user what was done. */
function say(words: string): void {
  toasts.show(words, "info");
}

/** Reports an error of this page to the user. */
function reportProblem(text: string): void {
  log("error", text);
  toasts.show(text);
}
