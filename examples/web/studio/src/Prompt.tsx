import { type KeyboardEvent, type SubmitEvent, useState } from "react";
import { useCommand, useControl, useKept, useLatest, useSetting } from "./reactor.ts";

const KEY = "studio prompts";
const MOST = 8;
const IDEAS = ["sunset over the sea", "neon city at night", "mountains in winter", "candy clouds", "ink and paper"];

/** What the picture shall be, what it was before, and how far the painter is. */
export function Prompt() {
  const control = useControl();
  const value = useKept(useSetting("prompt").value) ?? "";
  const { run, pending, error } = useCommand("set_prompt");
  const painting = useLatest("painting");
  const [draft, setDraft] = useState<string | null>(null); // null: the field shows the model's prompt
  const [history, setHistory] = useState(loadHistory);
  const [place, setPlace] = useState(-1); // in the history; -1: none of it

  const paint = async (prompt: string) => {
    setPlace(-1);
    try {
      await run({ prompt });
    } catch {
      return; // `error` says why, and the draft stays
    }
    setDraft(null);
    const newest = [prompt, ...history.filter((old) => old !== prompt)].slice(0, MOST);
    setHistory(newest);
    saveHistory(newest);
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    void paint((draft ?? value).trim());
  };
  const recall = (event: KeyboardEvent) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(place + step, -1), history.length - 1);
    setPlace(next);
    setDraft(history[next] ?? null);
  };

  const done = painting?.done ?? 1;
  return (
    <form className="prompt" onSubmit={submit}>
      <fieldset disabled={!control}>
        <div className="line">
          <input
            aria-label="Prompt"
            aria-describedby="prompt-error"
            aria-invalid={error !== null}
            placeholder="What do you want to see?"
            autoComplete="off"
            enterKeyHint="go"
            value={draft ?? value}
            onChange={({ target }) => setDraft(target.value)}
            onKeyDown={recall}
          />
          <button type="submit" className="primary" disabled={pending}>
            Paint
          </button>
        </div>
        <progress aria-label="Painting" max={1} value={done} data-done={done === 1} />
        <p id="prompt-error" className="error" role="alert">
          {error && (error.code === "invalid_command" ? "A prompt has 1 to 120 characters." : error.message)}
        </p>
        <ul className="history" aria-label="Earlier prompts">
          {history.map((prompt) => (
            <li key={prompt}>
              <button type="button" aria-pressed={prompt === value} onClick={() => void paint(prompt)}>
                {prompt}
              </button>
            </li>
          ))}
        </ul>
      </fieldset>
    </form>
  );
}

function loadHistory(): readonly string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (Array.isArray(found) && found.every((prompt) => typeof prompt === "string")) return found;
  } catch {
    // a browser that keeps nothing, or another's text
  }
  return IDEAS;
}

function saveHistory(history: readonly string[]): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(history));
  } catch {
    // it lasts as long as the page
  }
}
