import { type CSSProperties, useEffect, useState } from "react";
import { Camera } from "./Camera.tsx";
import { Prompt } from "./Prompt.tsx";
import { useClient, useControl, useLatest, useNow, useReactorState, WATCHED } from "./reactor.ts";
import { Settings } from "./Settings.tsx";
import { Stage } from "./Stage.tsx";
import { type Take, Takes } from "./Takes.tsx";

export function App() {
  const [takes, setTakes] = useState<readonly Take[]>([]);
  const [notice, setNotice] = useState("");
  const palette = useLatest("painting")?.palette;
  // The room has the light of the picture.
  const light = palette && { "--glow-1": `#${palette[1]}`, "--glow-2": `#${palette[2]}`, "--glow-3": `#${palette[3]}` };
  const client = useClient();
  useEffect(() => client.on("error", ({ message }) => setNotice(message)), [client]); // of what answers no call of ours
  useEffect(() => {
    const timer = setTimeout(() => setNotice(""), 8000);
    return () => clearTimeout(timer);
  }, [notice]);

  return (
    <div className="app" style={light as CSSProperties | undefined}>
      <header>
        <h1>Studio</h1>
        <Status />
        <Share say={setNotice} />
        <Leave />
      </header>
      <main>
        <div className="left">
          <Stage say={setNotice} add={(take) => setTakes((before) => [take, ...before])} />
          <Ending />
          <Prompt />
          <Takes takes={takes} drop={(gone) => setTakes((before) => before.filter((take) => take !== gone))} />
        </div>
        <aside aria-label="Controls">
          {WATCHED === null ? <Camera /> : <Watching />}
          <Settings />
        </aside>
      </main>
      <div className="notice" data-empty={notice === ""}>
        <span role="status">{notice}</span>
        {notice && (
          <button type="button" className="quiet" aria-label="Close" onClick={() => setNotice("")}>
            ✕
          </button>
        )}
      </div>
    </div>
  );
}

function Status() {
  const { status } = useReactorState();
  return (
    <span className="status" data-status={status}>
      {status}
    </span>
  );
}

/** Copies a link that shows this session to whoever has it, and lets nobody change it. */
function Share({ say }: { say: (notice: string) => void }) {
  const state = useReactorState();
  const token = "session" in state ? state.session.shareToken : null;
  const [link, setLink] = useState<string | null>(null);
  const share = async () => {
    const address = new URL(location.pathname, location.href);
    address.hash = new URLSearchParams({ watch: token ?? "" }).toString();
    try {
      await navigator.clipboard.writeText(address.href);
      say("Link copied. Who opens it sees this session, and cannot change it.");
    } catch {
      setLink(address.href); // the browser gives no clipboard, as on plain http: the person copies it
    }
  };
  if (token === null) return null;
  return (
    <>
      <button type="button" onClick={() => void share()}>
        Share
      </button>
      {link !== null && (
        <input
          className="link"
          aria-label="Link to copy"
          readOnly
          autoFocus
          value={link}
          onFocus={({ target }) => target.select()}
          onBlur={() => setLink(null)}
        />
      )}
    </>
  );
}

/** Ends the session, so that the next one in line gets it. */
function Leave() {
  const client = useClient();
  const control = useControl();
  if (!control) return null;
  return (
    <button type="button" className="quiet" onClick={() => void client.close()}>
      Leave
    </button>
  );
}

/** The server warns before it ends a session that is idle or too long, or before it stops. */
function Ending() {
  const client = useClient();
  const [at, setAt] = useState<number | null>(null);
  const { status } = useReactorState();
  useEffect(() => client.on("ending", (ending) => setAt(ending?.at ?? null)), [client]);
  const now = useNow(at !== null);
  if (at === null || status !== "live") return null;
  return (
    <p className="warning" role="status">
      This session ends in {Math.max(0, Math.ceil((at - now) / 1000))} s.
    </p>
  );
}

function Watching() {
  return (
    <section>
      <h2>You are watching</h2>
      <p>Somebody else holds the brush. You see what they see, and how they have set it.</p>
      <a className="button" href={location.pathname}>
        Start a session of my own
      </a>
    </section>
  );
}
