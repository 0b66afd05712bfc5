/** Every text that the page's code shows, in one table, so that a translation replaces one file. index.html has the texts that never change. */

/** `text("{n} of {total}", { n: 1, total: 2 })` is "1 of 2". */
export const text = (template: string, values: { readonly [name: string]: string | number }): string =>
  template.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));

export const STRINGS = {
  themes: { system: "Colours: as the system says", light: "Colours: light", dark: "Colours: dark" },
  status: {
    connecting: "connecting",
    loading: "loading",
    reloading: "reloading",
    waiting: "waiting",
    starting: "starting",
    live: "live",
    paused: "paused",
    watching: "watching",
    reconnecting: "reconnecting",
    disconnected: "disconnected",
    ended: "ended",
  },
  connecting: "Connecting …",
  reconnecting: "Reconnecting …",
  reconnectingNote: "Your session is kept. It goes on where it was.",
  reloading: "The model is being reloaded.",
  loading: "The model is loading",
  loadingDone: "{percent} %",
  failed: "The model failed",
  noPicture: "No picture yet",
  noPictureTrack: "This model has no picture.",
  queue: {
    next: "You are next",
    before: "{n} before you",
    place: "Position {position} of {total}",
    note: "Someone else has the session. Yours begins when there is a place.",
    wait: ", about {time}",
  },
  wait: {
    viewing: "The session that you watch has shown no picture yet.",
    devices: "The model is {still}warming up, or waits for the {devices}, not started yet.",
    and: " and the ",
    still: "still ",
    short: "The model is warming up.",
    long: "The model is still warming up.",
    command: "The model is still warming up, or waits for a command.",
  },
  again: "Trying again in {n} s.",
  seconds: "{n} s",
  minutes: "{n} min",
  minutesSeconds: "{m} min {n} s",
  figures: { line: "{fps} fps · {ms} ms", fps: "{fps} fps", none: "Stats", off: "off" },
  quality: {
    none: "No pictures yet",
    good: "Pictures come evenly",
    fair: "Pictures come unevenly",
    poor: "Pictures come late or are missing",
  },
  settings: {
    reset: "Reset {title} to {value}",
    advanced: "Advanced",
    none: "none",
    copied: "Link with these settings copied.",
    notCopied: "The browser does not let this page copy. The address bar has the link now.",
  },
  limits: {
    most: "at most {limit}",
    least: "at least {limit}",
    longest: "at most {limit} characters",
    shortest: "at least {limit} characters",
    whole: "a whole number",
  },
  copied: "Picture copied.",
  playback: { pause: "Pause", resume: "Go on", step: "One step", restart: "Restart" },
};
