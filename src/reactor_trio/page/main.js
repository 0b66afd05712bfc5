/** The page's entry point: connects sessions, pictures, controls and figures with the document. */
import { AccessToken } from "./access.js";
import { AudioPlayer } from "./audio-player.js";
import { CaptureLatency } from "./capture.js";
import { DecoderFallback, decodableAudio, decodableVideo, parseCodecs } from "./codecs.js";
import { SavedSession } from "./comeback.js";
import { Connection } from "./connection.js";
import { actionControl, settingControl } from "./controls.js";
import { element } from "./dom.js";
import { EndingBanner } from "./ending-banner.js";
import { Freezes } from "./freezes.js";
import { Gamepads } from "./gamepad.js";
import { Inputs } from "./inputs.js";
import { returnFocus } from "./keyboard-focus.js";
import { Keyboard } from "./keyboard.js";
import { LatencyPanel } from "./latency-panel.js";
import { Latency } from "./latency.js";
import { Overlay, describeWait } from "./overlay.js";
import { Picture, releaseCanvas, startWorker } from "./picture.js";
import { PointerLock } from "./pointer-lock.js";
import { Pointer } from "./pointer.js";
import { pageOf } from "./protocol.js";
import { readCommands } from "./schema.js";
import { ShareLink } from "./share-link.js";
import { Statistics } from "./statistics.js";
import { SafeStorage } from "./storage.js";
import { Toasts } from "./toasts.js";
import { Toolbar } from "./toolbar.js";
import { Uploads, dropOn, uploadCard } from "./uploads.js";

const FIGURES_INTERVAL = 250;
const LOG_LENGTH = 100;

const $ = (id) => document.getElementById(id);
const toasts = new Toasts($("toasts"));
const access = new AccessToken({ location, history, storage: () => globalThis.sessionStorage });
const query = new URLSearchParams(location.search);
const [decodable, audible] = await Promise.all([decodableVideo(), decodableAudio(), startWorker((message) => reportProblem(`pictures: ${message}`))]);
const requestedVideo = parseCodecs(query.get("video"));
const fallback = new DecoderFallback(decodable);
const requested = {
  video: requestedVideo.length ? requestedVideo : decodable,
  audio: query.get("audio") === "none" ? "none" : audible,
  role: query.get("role") === "viewer" ? "viewer" : undefined,
  model: query.get("model") ?? undefined,
  token: access.token ?? undefined,
  feedback: true,
};
const connection = new Connection(document.baseURI, requested, new SavedSession({ location, storage: () => globalThis.sessionStorage }));
addEventListener("pagehide", () => connection.saveSession());
addEventListener("offline", () => connection.offline());

const overlay = new Overlay($("overlay"), $("overlay-text"), $("overlay-note"));

/** Shows a state of the page. `text` goes over the picture (null: nothing), with the options `how` of the overlay. */
function show(state, status, text = null, how = {}) {
  document.body.dataset.state = state;
  $("status").textContent = status;
  if (text === null) overlay.hide();
  else overlay.show(status, text, how);
  $("reconnect").hidden = state !== "ended";
  $("access").hidden = true;
  $("controls").disabled = state !== "live" && state !== "resuming"; // commands wait while the session resumes
}

connection.addEventListener("connecting", ({ detail: session }) => {
  show("connecting", "connecting", "Connecting …");
  session.addEventListener("queued", ({ detail: { position, total, reason } }) => {
    const note = reason ? "" : "Someone else has the session. Yours begins when there is a place.";
    show("queued", "waiting", `Waiting, position ${position} of ${total}${reason ? `: ${reason}` : ""}`, { note });
  });
  session.addEventListener("admitted", () => show("connecting", "connecting", "Connecting …"));
  session.addEventListener("welcome", () => runSession(session));
  session.addEventListener("lost", () => {
    ending.hide();
    show("resuming", "reconnecting", "Reconnecting …");
  });
  session.addEventListener("resumed", ({ detail: { seconds, missed } }) => {
    if (missed > 0) log("error", `${missed} messages were lost while the connection was away for ${seconds.toFixed(1)} s`);
  });
  session.addEventListener("ending", ({ detail }) => ending.show(detail));
  session.addEventListener("closed", () => ending.hide());
  session.addEventListener("error", ({ detail }) => log("error", `${detail.code}: ${detail.message}`));
});

connection.addEventListener("ended", ({ detail: { text, wait, tokenWanted } }) => {
  show("ended", wait === null ? "ended" : "disconnected", text, { wait });
  if (!tokenWanted) return;
  access.set(null);
  $("access").hidden = false;
  $("access-token").focus();
});

$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  access.set($("access-token").value.trim());
  requested.token = access.token;
  $("access-token").value = "";
  connection.connectNow();
});
// The user has opened another link to this page in this tab. If only the part behind the `#` differs, the browser does not reload.
addEventListener("hashchange", () => { if (new URLSearchParams(location.hash.slice(1)).has("token")) location.reload(); });

connection.addEventListener("reloading", ({ detail: { text } }) => show("connecting", "reloading", text));

$("reconnect").addEventListener("click", () => connection.connectNow());

const SOUND_WORDS = { off: "Sound off", starting: "Starting …", on: "Sound on" };
const audio = new AudioPlayer({
  changed() {
    $("sound").dataset.sound = audio.state;
    $("sound-toggle").textContent = SOUND_WORDS[audio.state];
    $("sound-toggle").setAttribute("aria-pressed", String(audio.state !== "off"));
  },
  failed: reportProblem,
});
$("sound-toggle").addEventListener("click", () => audio.setEnabled(audio.state === "off"));
$("sound-volume").addEventListener("input", () => { audio.volume = $("sound-volume").valueAsNumber; });

const toolbar = new Toolbar(
  { hero: $("hero"), snapshot: $("snapshot"), record: $("record"), time: $("record-time"), fullscreen: $("fullscreen") },
  audio,
  reportProblem,
);
const ending = new EndingBanner($("ending"));
const share = new ShareLink($("share"), $("share-status"), $("share-link"));

const leadToggle = $("lead-toggle");
const preferences = new SafeStorage(() => globalThis.localStorage);
leadToggle.checked = (query.get("lead") ?? preferences.get("lead")) !== "off";
leadToggle.addEventListener("change", () => preferences.set("lead", leadToggle.checked ? "on" : "off"));

let keyboard = null; // of the running session, if its model has keys
const largeCanvas = () => document.querySelector("#hero canvas");
returnFocus(largeCanvas, () => keyboard !== null);

/** Runs one session from its welcome to its end. Its pictures and controls stay visible until the next session begins. */
function runSession(session) {
  const { name, role, schema } = session.welcome;
  $("name").textContent = name;
  document.title = name;
  $("role-note").hidden = role !== "viewer";

  const controlling = role !== "viewer";
  const statistics = new Statistics();
  const latency = new Latency();
  const breakdown = new LatencyPanel($("latency"));
  const inputs = new Inputs(session, controlling);
  const capture = new CaptureLatency(inputs.clock);
  fill("inputs", inputs.elements);
  $("capture").hidden = inputs.elements.length === 0;
  const freezes = new Freezes();
  const pictures = showTracks(session, statistics, freezes, capture, latency, () => showPicture("shown"));
  const smooth = () => { for (const picture of pictures.values()) picture.smooth(leadToggle.checked); };
  leadToggle.addEventListener("change", smooth);
  const [main = null] = pictures.keys();
  toolbar.beginSession(name, () => [...pictures.values()].find(({ canvas }) => canvas === largeCanvas()) ?? null);
  const serverPage = pageOf(session.url);
  share.show(session.welcome.share_token ?? null, serverPage);
  const hasAudio = audio.beginSession(session.tracks);
  for (const node of [$("sound"), ...document.querySelectorAll(".sounding")]) node.hidden = !hasAudio;
  const uploads = new Uploads(new URL("uploads", serverPage), session.welcome.upload_token ?? null);
  const controllers = showControls(controlling ? schema.commands : [], session, uploads, (type, data) =>
    session.command(type, data).catch((error) => {
      statistics.refused(error.id);
      latency.refused(error.id);
      throw error;
    }),
  );

  session.addEventListener("sent", ({ detail: { id } }) => {
    const now = performance.now();
    statistics.sent(id, now);
    latency.sent(id, now);
  });
  session.addEventListener("track", ({ detail }) => {
    audio.describe(detail);
    pictures.get(detail.index)?.describe(detail);
  });
  session.addEventListener("frame", ({ detail: frame }) => {
    if (audio.accept(frame)) return;
    const picture = pictures.get(frame.track);
    if (!picture) return;
    statistics.received(frame);
    if (frame.track === main) latency.received(frame, performance.now());
    picture.show(frame);
  });
  session.addEventListener("message", ({ detail: { type, data } }) => log(type, JSON.stringify(data)));

  const refresh = () => {
    showFigures(statistics, freezes, capture, session);
    breakdown.show(latency.snapshot());
  };
  refresh();
  const timer = setInterval(refresh, FIGURES_INTERVAL);
  session.addEventListener("closed", () => {
    clearInterval(timer);
    leadToggle.removeEventListener("change", smooth);
    refresh();
    toolbar.endSession();
    share.show(null);
    for (const part of [inputs, uploads, ...controllers]) part.close();
    keyboard = null;
    for (const picture of pictures.values()) picture.close();
  });

  const waiting = (seconds) => describeWait(seconds, { viewing: !controlling, unstarted: inputs.unstarted, commands: schema.commands.length > 0 });
  const showPicture = (which) => {
    document.body.dataset.picture = which;
    if (!session.linked) return; // it resumes, or has ended
    if (which === "shown") show("live", controlling ? "live" : "watching");
    else show("live", controlling ? "starting" : "watching", "No picture yet", { note: waiting });
  };
  session.addEventListener("resumed", () => showPicture(document.body.dataset.picture));
  showPicture(pictures.size && String(requested.video) !== "none" ? "awaited" : "shown");
}

/** Shows the controls of the commands, and returns those that must be closed with the session. */
function showControls(commands, session, uploads, send) {
  const { settings, keys, pointer, look, pad, actions } = readCommands(commands);
  keyboard = keys.length ? new Keyboard(keys, send) : null;
  const canvas = largeCanvas();
  const onPicture = new Pointer(pointer, send, canvas);
  const around = new PointerLock(look, send, canvas);
  const gamepads = new Gamepads(pad, send);
  const reply = (type, value) => log(type, JSON.stringify(value));
  fill("settings", settings.map((setting) => settingControl(setting, send, uploads, session)));
  fill("keys", keyboard?.legend() ?? []);
  fill("gamepad", pad.buttons.length || pad.axes ? gamepads.legend() : []);
  fill("pointer", [...(Object.keys(pointer).length ? onPicture.legend() : []), ...(look ? around.legend() : [])]);
  const cards = actions.map((action) => actionControl(action, send, reply, uploads));
  if (uploads.needsOwnCard) cards.push(uploadCard(uploads));
  fill("actions", cards);
  if (uploads.onlyDropTarget) dropOn(window, uploads.onlyDropTarget, { signal: uploads.signal });
  return [...(keyboard ? [keyboard] : []), gamepads, onPicture, around];
}

function fill(part, nodes) {
  const section = $(part);
  section.hidden = nodes.length === 0;
  section.querySelector(".list").replaceChildren(...nodes.filter(Boolean));
}

/** Shows a canvas for each video track, the first one large. A canvas of the previous session keeps its place and its picture. */
function showTracks(session, statistics, freezes, capture, latency, firstShown) {
  const outputs = session.tracks.filter(({ direction }) => direction === "out");
  const videos = outputs.filter(({ kind }) => kind === "video");
  const before = new Map([...document.querySelectorAll("canvas")].map((canvas) => [canvas.dataset.track, canvas.parentElement]));
  const pictures = new Map();
  const figuresInPlace = videos.map((track, place) => {
    const figure = before.get(track.name) ?? pictureFigure(track.name);
    const canvas = figure.querySelector("canvas");
    let [failing, first] = [false, true];
    pictures.set(track.index, new Picture(canvas, track, {
      shown(frame, now, delay) {
        failing = false;
        toolbar.pictureShown(canvas);
        if (first) firstShown(); // of any track, because the first track may never have a picture
        first = false;
        if (place > 0) return; // statistics cover the first track only
        statistics.shown(frame, now, audio.timeAt(now));
        freezes.shown(frame, now);
        capture.shown(frame, now);
        latency.shown(frame, now);
        statistics.playoutDelay = delay;
      },
      skipped: () => statistics.skipped(),
      failed(frame, message) {
        // A wrong codec or size fails with every frame; report it once.
        if (!failing) log("error", `${track.name}, frame ${frame.seq}: ${message}`);
        failing = true;
      },
      dealt: (seq, heldUs) => session.feedback(track.index, seq, heldUs),
      keyframe: () => session.keyframe(track.index),
      trouble: (codec, software, message) => stepDown(session, pictures, codec, software, message),
    }, { audioTime: (now) => audio.timeAt(now), lead: leadToggle.checked, software: fallback.software }));
    return figure;
  });
  for (const figure of before.values()) if (!figuresInPlace.includes(figure)) {
    figure.remove();
    releaseCanvas(figure.querySelector("canvas"));
  }
  if (figuresInPlace.length) $("hero").prepend(figuresInPlace[0]);
  $("others").replaceChildren(...figuresInPlace.slice(1));
  $("notes").hidden = videos.length > 0;
  $("notes").textContent = videos.length ? "" : "This model has no picture.";
  return pictures;
}

/** Falls back to a simpler decoder, for this and later sessions, and reports each step once. */
function stepDown(session, pictures, codec, software, message) {
  const step = fallback.next(codec, software);
  if (step === null) return;
  if (step.software) {
    for (const picture of pictures.values()) picture.preferSoftware();
  } else {
    requested.video = step.video;
    session.requestVideo(step.video);
  }
  const text = `${codec}: ${message}. ${step.software ? "It is decoded in software now" : `The page asks for ${step.video.join(" or ")} now`}.`;
  if ($("notes").textContent !== text) log("error", text);
  $("notes").hidden = false;
  $("notes").textContent = text;
}

function pictureFigure(name) {
  const canvas = element("canvas", { width: 640, height: 360, role: "img", "aria-label": `Video ${name}`, "data-track": name, tabindex: -1 });
  const enlarge = element("button", { type: "button", class: "enlarge", "aria-label": `Enlarge ${name}`, title: `Enlarge ${name}` });
  enlarge.append($("fullscreen").firstChild.cloneNode(true));
  const figure = element("figure", {}, canvas, element("figcaption", {}, name), enlarge);
  enlarge.addEventListener("click", ({ detail }) => {
    const large = largeCanvas().parentElement;
    figure.before(large);
    $("hero").prepend(figure);
    if (detail === 0) large.querySelector(".enlarge").focus(); // the click came from the keyboard, so keep its focus on this control
  });
  return figure;
}

function showFigures(statistics, freezes, capture, session) {
  const now = statistics.snapshot(performance.now());
  const { last, p50 } = capture.snapshot();
  const set = (id, value, digits = 0) => { $(id).textContent = value === null ? "–" : value.toFixed(digits); };
  set("figure-fps", now.fps, 1);
  set("figure-jitter", now.jitter, 1);
  set("figure-latency", now.latency);
  set("figure-latency-p50", now.latencyP50);
  set("figure-capture", last);
  set("figure-capture-p50", p50);
  set("figure-drops", now.gaps + now.skipped);
  set("figure-gaps", now.gaps);
  set("figure-skipped", now.skipped);
  $("figure-lead").textContent = statistics.playoutDelay === null ? "off" : `${statistics.playoutDelay.toFixed(0)} ms`;
  set("figure-freezes", freezes.figures.count);
  set("figure-frozen", freezes.figures.frozen / 1000, 1);
  set("figure-steps", fallback.count);
  set("figure-av-offset", now.offset === null ? null : Math.round(now.offset)); // rounded first to avoid "-0"
  set("figure-audio-buffer", audio.statistics.buffer);
  set("figure-audio-target", audio.statistics.target);
  set("figure-audio-underruns", audio.statistics.underruns);
  set("figure-audio-lost", audio.statistics.lost);
  const main = session.tracks.find(({ direction, kind }) => direction === "out" && kind === "video");
  $("figure-format").textContent = main?.width ? `${main.width}×${main.height} ${main.codec}` : (main?.codec ?? "–");
}

/** Reports an error of this page to the user. */
function reportProblem(text) {
  log("error", text);
  toasts.show(text);
}

let logged = 0;

/** Adds a model message, a reply or an error to the top of the list of the last hundred. */
function log(type, text) {
  logged += 1;
  $("log-count").textContent = logged;
  const time = new Date().toLocaleTimeString([], { hour12: false });
  const line = element("li", { class: type === "error" ? "error" : null }, element("time", {}, time), " ", element("b", {}, type), ` ${text}`);
  $("log-list").prepend(line);
  if ($("log-list").children.length > LOG_LENGTH) $("log-list").lastChild.remove();
}

connection.connectNow();
