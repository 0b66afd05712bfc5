import { useEffect, useRef, useState } from "react";
import type { ClientState, Recording, View } from "reactor-trio";
import { Picture, useClient, useNow, useReactorState, WATCHED } from "./reactor.ts";
import { type Take, takeOf } from "./Takes.tsx";

interface Props {
  readonly say: (notice: string) => void;
  readonly add: (take: Take) => void;
}

/** The picture, what is said in its place, and the buttons that keep it. */
export function Stage({ say, add }: Props) {
  const view = useRef<View>(null);
  const frame = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState(false);
  const [recording, setRecording] = useState<Recording | null>(null);
  const now = useNow(recording !== null);
  const there = "session" in useReactorState();
  useEffect(() => {
    if (!there) void recording?.stop(); // the call that began it keeps the file, or says why there is none
  }, [there, recording]);

  const keep = async (file: Promise<Blob>) => {
    try {
      add(takeOf(await file));
    } catch (error) {
      say((error as Error).message);
    }
  };
  const record = async () => {
    if (recording !== null) return void recording.stop();
    if (view.current === null) return;
    const begun = view.current.record({ onTrouble: say });
    setRecording(begun);
    await keep(begun.file); // also when a fault ends it
    setRecording(null);
  };

  return (
    <div className="stage" ref={frame}>
      <Picture className="picture" viewRef={view} role="img" aria-label="The painting" onPresented={() => setShown(true)} />
      <Curtain />
      <div className="toolbar" hidden={!shown || !there}>
        <button type="button" aria-pressed={recording !== null} onClick={() => void record()}>
          <span className="dot" />
          {recording === null ? "Record" : `Stop ${clock(now - recording.began)}`}
        </button>
        <button type="button" onClick={() => view.current && void keep(view.current.snapshot())}>
          Snapshot
        </button>
        {document.fullscreenEnabled && (
          <button type="button" aria-label="Full screen" onClick={() => void toggleFullscreen(frame.current)}>
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4" />
            </svg>
          </button>
        )}
      </div>
    </div>
  );
}

/** Why there is no moving picture, and what can be done. */
function Curtain() {
  const client = useClient();
  const state = useReactorState();
  const now = useNow(state.status === "waiting");
  const words = describe(state);
  return (
    <div className="curtain" data-status={state.status}>
      <div role="status">
        <p className="title">{words?.title}</p>
        <p>{words?.text}</p>
      </div>
      {state.status === "waiting" && (
        <p>
          Next try in {Math.max(0, Math.ceil((state.retryAt - now) / 1000))} s{" "}
          <button type="button" onClick={() => client.reconnect()}>
            Try now
          </button>
        </p>
      )}
      {state.status === "ended" && !linkIsOver(state) && (
        <button type="button" className="primary" onClick={() => client.reconnect()}>
          Start again
        </button>
      )}
    </div>
  );
}

function describe(state: ClientState): { title: string; text: string } | null {
  switch (state.status) {
    case "live":
      return null;
    case "connecting":
      return { title: "Connecting", text: "" };
    case "queued":
      return {
        title: state.position === 1 ? "You are next" : `You are number ${state.position} in line`,
        text: "All places are taken. The picture comes by itself when one is free.",
      };
    case "resuming":
      return { title: "The connection is lost", text: "Coming back to your session. What you do now is sent then." };
    case "restarting":
      return { title: "The model is being loaded", text: state.reason };
    case "waiting":
      return { title: "No connection", text: state.error.message };
    case "ended":
      if (linkIsOver(state)) return { title: "This session is over", text: "The link showed a session that has ended." };
      return { title: "The session is over", text: state.end?.message ?? "" };
  }
}

/** A share link is good as long as its session. */
function linkIsOver(state: ClientState): boolean {
  return WATCHED !== null && state.status === "ended" && state.end !== null;
}

function clock(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

async function toggleFullscreen(element: HTMLElement | null): Promise<void> {
  if (document.fullscreenElement !== null) await document.exitFullscreen();
  else await element?.requestFullscreen();
}
