/**
 * Every text that the page shows, in English; `languages/` has the same in other languages. Each table belongs to the parts of the page that load
 * it: STRINGS and HANDS to the first load, the others to what is loaded later.
 */
import { inLanguage, LANGUAGE } from "./language.ts";

const formats: { [digits: string]: Intl.NumberFormat } = {};

/** A number as the page's language writes it, with so many digits behind the point. Never "-0". */
export const number = (value: number, least = 0, most = least): string =>
  (formats[`${least},${most}`] ??= new Intl.NumberFormat(LANGUAGE, {
    minimumFractionDigits: least,
    maximumFractionDigits: most,
    useGrouping: false,
    signDisplay: "negative",
  })).format(value);

/** `fillIn("{n} of {total}", { n: 1, total: 2 })` is "1 of 2". Numbers are written as the page's language writes them. */
export const fillIn = (template: string, values: { readonly [name: string]: string | number }): string =>
  template.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name] ?? whole;
    return typeof value === "string" ? value : number(value, 0, 20);
  });

/** Forms of a text by the plural's category, such as "one"; see `Intl.PluralRules`. */
export type Plural = { readonly [Category in Intl.LDMLPluralRule]?: string } & { readonly other: string };

/** The form of a text for `n`, filled in. */
export const plural = (forms: Plural, n: number, values: { readonly [name: string]: string | number } = {}): string =>
  fillIn(forms[new Intl.PluralRules(LANGUAGE).select(n)] ?? forms.other, { n, ...values });

// Texts of both tables. (By name, and not as STRINGS.x, so that a part of the page takes only the table that it uses.)
const CONNECTING = "Connecting …";
const CONNECTING_STATUS = "connecting";
const RECORD = "Record to a file";
const STATS = "Stats";
const DEFAULTS = "With the default settings";
const DETAILS = "Details";
const FILE_NEEDED = "a file is needed";

/** The page's texts in one language. Those of index.html are by their English. */
export interface Texts {
  readonly STRINGS: Words<typeof STRINGS>;
  readonly HTML: { readonly [English in (typeof HTML)[keyof typeof HTML]]: string };
  readonly HANDS: Words<typeof HANDS>;
  readonly SHARE: Words<typeof SHARE>;
  readonly HINTS: Words<typeof HINTS>;
  readonly FIGURES: Words<typeof FIGURES>;
  readonly LEGEND: Words<typeof LEGEND>;
  readonly PADS: Words<typeof PADS>;
  readonly UPLOADS: Words<typeof UPLOADS>;
  readonly INPUTS: Words<typeof INPUTS>;
  readonly LIMITS: Words<typeof LIMITS>;
  readonly ANSWERS: Words<typeof ANSWERS>;
  readonly WIDGETS: Words<typeof WIDGETS>;
  readonly API: Words<typeof API>;
  readonly ENDING: Words<typeof ENDING>;
  readonly FAILURE: Words<typeof FAILURE>;
  readonly CLIP: Words<typeof CLIP>;
  readonly WORLDS: Words<typeof WORLDS>;
  readonly STRIP: Words<typeof STRIP>;
  readonly SLOTS: Words<typeof SLOTS>;
  readonly STEP_DOWN: Words<typeof STEP_DOWN>;
}
type Words<Table> = Table extends string ? string : { readonly [Name in keyof Table]: Words<Table[Name]> };

export const STRINGS = /* @__PURE__ */ inLanguage("STRINGS", {
  themes: { system: "Colours: as the system says", light: "Colours: light", dark: "Colours: dark" },
  status: {
    connecting: CONNECTING_STATUS,
    loading: "loading",
    reloading: "reloading",
    waiting: "waiting",
    starting: "starting",
    live: "live",
    paused: "paused",
    watching: "watching",
    reconnecting: "reconnecting",
    failed: "failed",
    disconnected: "disconnected",
    ended: "ended",
  },
  connecting: CONNECTING,
  reconnecting: "Reconnecting …",
  reconnectingNote: "Your session is kept. It goes on where it was.",
  reloading: "The model is being reloaded",
  loading: "The model is loading.",
  loadingDone: "{percent} %",
  failed: "The model failed",
  noPictureTrack: "This model has no picture.",
  queue: {
    next: "You are next.",
    before: { one: "One person is before you.", other: "{n} people are before you." },
    note: "Your session begins by itself.",
    wait: "Your session begins by itself, in {time} at most.",
    place: "Place {position} of {total}",
  },
  wait: {
    viewing: "The session that you watch has shown no picture yet.",
    camera: "Turn on the camera to begin.",
    microphone: "Turn on the microphone to begin.",
    both: "Turn on camera and microphone to begin.",
    model: "The model is warming up.",
    command: "The model may be waiting for a setting or an action of yours.",
  },
  details: DETAILS,
  soFar: "You have waited {time}.",
  again: "Trying again in {n} s.",
  seconds: "{n} s",
  minutesSeconds: "{m} min {n} s",
  figures: { line: "{fps} fps · {ms} ms", fps: "{fps} fps", none: STATS },
  quality: {
    uneven: "pictures come unevenly",
    missing: "some pictures do not arrive",
    freezes: "the picture stood still",
  },
  more: "More",
  less: "Less",
  settings: {
    reset: "Reset {title} to {value}",
    advanced: "Advanced",
    none: "none",
    copied: "Link with these settings copied.",
    notCopied: "The browser does not let this page copy. The address bar has the link now.",
  },
  copied: "Picture copied.",
  saved: "Saved: {name}",
  playback: { pause: "Pause", resume: "Go on", step: "One step", restart: "Begin again", kept: "Keep the settings", fresh: DEFAULTS },
  ends: {
    done: "The session is over.",
    client_left: "The session was left.",
    unclaimed: "The session was not taken up in time.",
    expired: "The session's time is up.",
    idle: "The session ended because nothing was done for a while.",
    taken_over: "Another client has taken over this session.",
    revoked: "Access to this session was withdrawn.",
    draining: "The server is shutting down.",
    protocol_error: "The server did not understand this page.",
    too_slow: "The connection was too slow for the pictures.",
    flood: "Too many commands were left unanswered.",
    too_big: "A message was larger than the server takes.",
    model_error: "The model failed.",
    model_restarting: "The model is being reloaded.",
    replica_failed: "The machine that ran the model failed.",
    no_room: "There is no room for another client.",
  },
  lost: "The connection was lost.",
  tell: "Please tell whoever runs this page.",
  hidden: "Its code raised an exception, or ended. The server's log has the line; with the option --debug the page shows it, too.",
  queuedAgain: "The model failed; you are in line again.",
  nextSession: "You see the next session when it begins.",
  stall: { pictures: "no pictures for", busy: "the model is busy for", code: "{what} for" },
  endedBecause: "The session ended: {reason}.",
  unreachable: "The server cannot be reached.",
  behindProxy: "A proxy in front of the server answers {status}.",
  notLetIn: "Not let in: {why}.",
  tokenWanted: "This server wants a token.",
  tokenOnlyWatches: "This token can only watch: add role=viewer to the address, or show another.",
  otherModel: "This server runs the model “{is}”, not “{wanted}”.",
  nothingToWatch: "There is no session to watch yet.",
  watchedEnded: "The session you watched has ended.",
  noWorld: "The moment that this link leads to is not kept any more.",
  busy: "Server not ready or busy.",
  busyBecause: "Server not ready or busy: {detail}.",
  tools: {
    record: RECORD,
    stopRecording: "Stop recording and save",
    leave: "Leave full screen",
    failed: { copy: "copy", snapshot: "screenshot", clip: "last ten seconds", recording: "recording", fullscreen: "full screen" },
    preparing: "The last ten seconds are being saved …",
  },
  fields: {
    number: "a number is needed",
    choice: "a choice is needed",
    file: FILE_NEEDED,
    choose: "Choose …",
    json: "not JSON: {why}",
    exact: "{title}, exact value",
    asJson: "{title}, as JSON",
  },
  hide: "Click to hide",
  video: "Video",
  videoOf: "Video {name}",
  enlarge: "Enlarge {name}",
  problems: { keys: "keys: {why}", inputs: "inputs: {why}", pictures: "pictures: {why}", api: "API: {why}" },
  missed: {
    one: "One message was lost while the connection was away for {seconds} s",
    other: "{n} messages were lost while the connection was away for {seconds} s",
  },
  over: "the session is over",
} as const);

/** The texts of index.html, which the build puts there. */
export const HTML = {
  skip: "Skip to the controls",
  linkForViewers: "Link for viewers",
  stats: STATS,
  figures: "Figures",
  rateHint: "Pictures drawn per second",
  jitterHint: "How unevenly pictures come",
  leadHint: "Shows pictures up to 60 ms later, so that they come evenly",
  freezesHint: "How often, and how long, the picture stood still",
  commandHint: "From a command to its first picture",
  captureHint: "From the camera to the first picture made with it",
  droppedHint: "Pictures that the network lost, or that this page left out for a newer one",
  soundHint: "Sound that waits, and how long it should; what came too late, or never",
  afterSoundHint: "How much later than its sound a picture comes",
  pictureHint: "Size, codec, and how often a decoder failed",
  sound: "Sound",
  volume: "Volume",
  shareHint: "Copy a link that lets others watch this session",
  picture: "Picture",
  token: "Token",
  errors: "Errors",
  playback: "Playback",
  saveThePicture: "Save the picture",
  copyThePicture: "Copy the picture",
  saveTheLastSeconds: "Save the last ten seconds",
  recordToAFile: RECORD,
  fullScreen: "Full screen",
  controls: "Controls",
  divider: "Divider",
  aboutThisModel: "About this model",
  examples: "Examples",
  inputs: "Inputs",
  settings: "Settings",
  copyLinkHint: "Copy a link to this page with these settings",
  resetAllHint: "Set everything to the model's defaults",
  keys: "Keys",
  gamepad: "Gamepad",
  pointer: "Pointer",
  actions: "Actions",
  connecting: CONNECTING_STATUS,
  slow: "slow",
  rate: "Rate",
  fps: "fps",
  jitter: "Jitter",
  ms: "ms",
  lead: "Smoothing",
  freezes: "Freezes",
  commandToPicture: "Command to picture",
  captureToPicture: "Capture to picture",
  dropped: "Not shown",
  onTheWay: "did not arrive,",
  here: "came too late",
  soundWaiting: "Sound waiting",
  of: "of",
  msOf: "ms,",
  late: "late,",
  lost: "lost",
  pictureAfterSound: "Picture after sound",
  stepdowns: "decoder changes",
  details: DETAILS,
  commandMedian: "Command to picture, median",
  median: "median",
  most: "95 %",
  playSound: "Play sound",
  share: "Watch link",
  connectingNow: CONNECTING,
  connect: "Connect",
  reconnectNow: "Reconnect now",
  watching: "Somebody else is playing; you are watching.",
  copyLink: "Settings link",
  resetAll: "Reset all",
  pointerOnThePicture: "Pointer on the picture",
  messages: "Messages",
  api: "Use from a program (API)",
  noScript: "This page needs JavaScript.",
} as const;

/** The texts of keys, gamepad and pointer. */
export const HANDS = /* @__PURE__ */ inLanguage("HANDS", {
  open: "Keys and controls (?)",
  keySigns: { space: "Space", escape: "Esc", enter: "Enter" },
  buttonSigns: { back: "Back", start: "Start", home: "Home" },
  key: "key {key}",
  gamepadButton: "gamepad {button}",
  sticks: "Sticks",
  noGamepads: "This browser gives gamepads only to pages of https and of localhost.",
  pressGamepad: "Press a button of a gamepad to connect it.",
  otherGamepad: "{name}: its layout is unknown, buttons may be in other places",
  pointerSigns: { down: "Press", move: "Drag", up: "Let go" },
  hover: "Move",
  here: "on the picture",
  look: "Look",
  around: "around",
  dragToLook: "Drag on the picture.",
  clickToLook: "Click the picture to look with the mouse.",
  looking: "Escape gives the mouse back.",
  notLooking: "The browser kept the pointer: {why}",
  file: "Choose a file for the model",
  broken: "That did not work: the model made a mistake.",
} as const);

/** The texts of the link for viewers, which is made when somebody asks for it. */
export const SHARE = /* @__PURE__ */ inLanguage("SHARE", {
  copied: "Link copied: anyone who has it can watch.",
  hereOnly: "It works on this computer only.",
  turn: "Wait for your turn",
  play: "Play yourself",
  begin: "Play from the beginning",
  copyYourself: "Copy this link: anyone who has it can watch.",
} as const);

/** The texts of a hint that is made of what the model declares. */
export const HINTS = /* @__PURE__ */ inLanguage("HINTS", {
  does: "{sign}\u00a0{what}",
  and: "\u00a0· ",
  sticks: "Sticks",
  drag: "Drag",
  click: "Click",
  look: "look around",
  buttons: "Play with the buttons at the picture",
} as const);

/** The texts of the card of figures, with the latency's parts. */
export const FIGURES = /* @__PURE__ */ inLanguage("FIGURES", {
  lead: { ms: "{ms} ms", off: "off" },
  total: "total",
  parts: { wait: "wait", step: "step", queue: "queue", encode: "encode", network: "network", decode: "decode" },
  meanings: {
    wait: "until the step that saw the command began",
    step: "the model's step",
    queue: "from the step's end until encoding began",
    encode: "encoding",
    network: "the network in both directions, and everything that is not measured",
    decode: "from arriving here until it was drawn",
  },
  summary: "median {p50} ms, 95 % within {p95} ms",
  part: "{part} {ms} ms",
  median: "Median: {parts}",
} as const);

/** The texts of the key legend, which is loaded when it is opened. */
export const LEGEND = /* @__PURE__ */ inLanguage("LEGEND", {
  title: "Keys and controls",
  close: "Close",
  keys: "Keys",
  keyboard: "Keyboard",
  pointer: "On the picture",
  gamepad: "Gamepad",
  page: "This page",
  buttons: "Buttons at the picture",
  change: "Change",
  changeKey: "Change the key of {what}",
  press: "Press a key …",
  asked: "Press the key for {what}, or Escape to leave it.",
  given: "{what}: {sign}",
  refused: "{sign} is the key of another command, and {what} cannot give it one.",
  reset: "Reset keys",
  resetDone: "All keys are the model's own.",
  lookHow: "{what}: click the picture to look with the mouse, or drag with a finger or a pen",
  shortcuts: [
    ["?", "show or close this"],
    ["Esc", "close this, give the mouse back, or leave full screen"],
  ],
  back: "hold: run back to an earlier moment",
  strip: "show or hide all moments, to choose one",
  pads: "Buttons for fingers",
  padsWhen: { auto: "On touch screens", on: "Always", off: "Never" },
} as const);

/** The texts of the touch pads, which are loaded when they are shown. */
export const PADS = /* @__PURE__ */ inLanguage("PADS", { label: "Keys for fingers", cross: "Directions", others: "More keys" } as const);

/** The texts of camera and microphone, which are loaded for a model that takes them. */
export const INPUTS = /* @__PURE__ */ inLanguage("INPUTS", {
  camera: { title: "Camera", start: "Turn on the camera", stop: "Turn off the camera", which: "Use camera" },
  microphone: { title: "Microphone", start: "Turn on the microphone", stop: "Turn off the microphone", which: "Use microphone" },
  cancel: "Cancel",
  live: "live",
  sent: "Camera, as sent",
  self: "You, mirrored",
  loudness: "Loudness",
  size: "Size",
  rate: "Rate",
  fps: "{fps} fps",
  source: "Source",
  nameless: "source {n}",
  pictures: "sends {fps} pictures a second",
  sound: "sends sound",
  quality: "{rate} kHz",
  skipped: ", {n} left out",
} as const);

/** The texts of fields for files, which are loaded with the first. */
export const UPLOADS = /* @__PURE__ */ inLanguage("UPLOADS", {
  file: "File",
  sent: "{title}: sent",
  size: "{n} {unit}",
  units: { GB: "GB", MB: "MB", kB: "kB", bytes: "bytes" },
  choose: "Choose a file or drop it here",
  sending: "Sending {name}",
  refused: "This server takes no uploads.",
  unfit: {
    image: "This is not a picture. Choose a PNG or JPEG.",
    video: "This is not a video. Choose an MP4 or WebM.",
    audio: "This is not a recording. Choose a WAV or MP3.",
    other: "This file cannot be used here. It takes: {kinds}.",
  },
  kinds: { image: "pictures", video: "videos", audio: "sound" },
  busy: "the file is still being sent",
  needed: FILE_NEEDED,
  cancel: "Cancel",
} as const);

/** The texts of a value's limits, which are loaded with the first text or refusal. */
export const LIMITS = /* @__PURE__ */ inLanguage("LIMITS", {
  most: "Choose at most {limit}.",
  least: "Choose at least {limit}.",
  shortest: { one: "Write at least one character.", other: "Write at least {n} characters." },
  longest: { one: "Write at most one character.", other: "Write at most {n} characters." },
  whole: "Choose a whole number.",
  other: "The model does not take this value.",
} as const);

/** The texts of the model's answers to what the user gave, which are loaded with the first. */
export const ANSWERS = /* @__PURE__ */ inLanguage("ANSWERS", {
  apply: "Apply",
  applied: "Applied",
  done: "Done",
} as const);

/** The texts of widgets that a model may have, which are loaded with it. */
export const WIDGETS = /* @__PURE__ */ inLanguage("WIDGETS", {
  color: "Choose a colour: {title}",
  seed: "Draw another number: {title}",
} as const);

/** The texts of the API page, which is loaded when it is opened. */
export const API = /* @__PURE__ */ inLanguage("API", {
  title: "API of {model}",
  close: "Close",
  intro:
    "What a program can send to this model. Each example opens a session of its own; at a server with one session it waits for yours to end.",
  token: "The server wants a token; put yours where the examples name it.",
  schema: "Schema as JSON",
  connect: "Connect",
  commands: "Commands",
  noCommands: "This model has no commands.",
  noArguments: "No arguments.",
  argument: "Argument",
  type: "Type",
  needed: "Needed",
  meaning: "Meaning",
  required: "yes",
  optional: "no: {value}",
  types: {
    number: "a number",
    whole: "a whole number",
    text: "a text",
    boolean: "true or false",
    file: "a file that was uploaded",
    json: "JSON",
    between: "{type} from {minimum} to {maximum}",
    least: "{type}, at least {minimum}",
    most: "{type}, at most {maximum}",
    longest: "{type} of at most {limit} characters",
    oneOf: "one of {choices}",
    orNull: "{type}, or null",
  },
  arguments: "Arguments of {command} as JSON",
  notJson: "This is not JSON: {why}",
  noObject: "Write an object with the names of the arguments.",
  attempt: "Try it",
  sent: "Sent …",
  applied: "Applied by step {step}; the reply is {reply}",
  refused: "Refused, {code}: {message}",
  javascript: "JavaScript",
  python: "Python",
  commandLine: "Command line",
  curl: "curl",
  copy: "Copy",
  copied: "Copied",
  selected: "Selected",
  copyWhat: "Copy: {title}",
  files: "Files",
  filesHow:
    "Send the file first, with the upload token of your session (upload_token of reactor.welcome), and then a command with the upload_id of the answer.",
  tracks: "Tracks",
  directions: {
    out: { video: "pictures from the model", audio: "sound from the model" },
    in: { video: "pictures to the model", audio: "sound to the model" },
  },
  messages: "Messages of the model",
} as const);

/** The texts of the announcement that a session ends, which is loaded after the first picture. */
export const ENDING = /* @__PURE__ */ inLanguage("ENDING", {
  ending: {
    idle: "Nothing was done for a while. The session ends in",
    expired: "The session's time is nearly up. It ends in",
    draining: "The server is shutting down. The session ends in",
    other: "The session ends in",
  },
  seconds: "{n} s",
} as const);

/** The texts of a session after a failure, which are loaded after the first picture. */
export const FAILURE = /* @__PURE__ */ inLanguage("FAILURE", {
  again: "The model failed and began again.",
  restarted: "The model had to be loaded again: {reason}.",
  settings: "Use the old settings",
  dismiss: "Dismiss",
} as const);

/** The texts of `clip.ts`. */
export const CLIP = /* @__PURE__ */ inLanguage("CLIP", {
  empty: "there is no picture yet",
  noMp4: "this browser cannot make an MP4",
} as const);

export const WORLDS = /* @__PURE__ */ inLanguage("WORLDS", {
  rewind: "Go back 5 seconds",
  hold: "Go back 5 seconds; hold to run back ({key}); all moments: {strip}",
  finger: "hold the button to run back, and to see all moments",
  undo: "Undo",
  undoHint: "Return to where you were before you went back or loaded a place",
  redo: "Redo",
  redoHint: "Take the undo back",
  rewound: "rewound {n} s",
  undone: "back again",
  redone: "redone",
  failed: "It was not possible to go back",
  loaded: "loaded “{name}”",
  loadedByPlayer: "a saved place was loaded",
  lost: "The world of before is lost. This is a new one.",
  dismiss: "Dismiss",
  forked: "From here on this is a world of your own",
} as const);

export const STRIP = /* @__PURE__ */ inLanguage("STRIP", {
  label: "Moments",
  ago: { one: "{n} second ago", other: "{n} seconds ago" },
  now: "now",
  close: "Close the moments",
} as const);

/** The texts of the saved places and of the link from here, which are loaded for a model that saves its worlds. */
export const SLOTS = /* @__PURE__ */ inLanguage("SLOTS", {
  title: "Saved places",
  name: "Name",
  save: "Save",
  saveHint: "Keep this moment, and come back to it later",
  saved: "Saved: {name}",
  load: "Go on from “{name}”",
  delete: "Delete “{name}”",
  deleted: "Deleted: {name}",
  undo: "Undo",
  kept: "Still there: {name}",
  session: "Saved places last as long as this session.",
  fork: "Link from here",
  forkHint: "Copy a link with which somebody else plays on from this moment, in a world of their own",
  linkLabel: "Link from this moment",
  copied: "Link copied.",
  copyYourself: "Copy this link.",
  goes: "Whoever has it plays on from this moment, in a world of their own. It takes along your settings, texts and uploaded pictures as they are now.",
  good: "It is good until {when}.",
  goodInSession: "It is good until {when}, and no longer than your session.",
  hereOnly: "It works on this computer only.",
  refused: {
    no_such_world: "This place is gone.",
    foreign_world: "This place is of another version of the model, which cannot load it.",
    old_world: "This place is of an older version of the model, which cannot load it any more.",
    damaged_world: "The file of this place is damaged.",
    cannot_save: "This moment cannot be saved: the model does not allow it.",
    restore_failed: "This place could not be loaded. You are where you were.",
    too_many:
      "You have as many of these as one session may have. Delete a place that you have just saved; a link goes when its time is over.",
    too_big: "This moment is too large to be saved.",
    store_failed: "The server could not store or read it. Please try again later.",
    not_saveable: "This server cannot save places.",
    not_allowed: "This server does not allow that.",
    busy: "Another place is still being saved.",
  },
} as const);

export const STEP_DOWN = /* @__PURE__ */ inLanguage("STEP_DOWN", {
  software: "The video is decoded in software now.",
  asks: "The page asks for {codecs} now.",
  or: " or ",
} as const);
