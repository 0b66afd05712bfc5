import { type CSSProperties, useId, useState } from "react";
import type { SliderField } from "reactor-trio/controls";
import { useCommand, useControl, useKept, useSetting, useSliderFields } from "./reactor.ts";

const SLIDERS = { strength: "Strength", colours: "Colours", lines: "Lines", trails: "Trails", speed: "Speed" } as const;
type SliderName = keyof typeof SLIDERS;

export function Settings() {
  const control = useControl();
  const fields = useSliderFields();
  const reset = useCommand("reset");
  return (
    <section className="settings">
      <fieldset disabled={!control}>
        <div className="line">
          <h2>Look</h2>
          <button type="button" className="quiet" disabled={reset.pending} onClick={() => void reset.run()}>
            Reset all
          </button>
        </div>
        {(Object.keys(SLIDERS) as SliderName[]).map((name) => (
          <Slider key={name} name={name} field={fields.get(name)} />
        ))}
      </fieldset>
    </section>
  );
}

/** Its value is the model's, whoever set it. `field` is undefined before the first session. */
function Slider({ name, field }: { name: SliderName; field: SliderField | undefined }) {
  const id = useId();
  const { value: told, set, error } = useSetting(name);
  const value = useKept(told);
  const [draft, setDraft] = useState<string | null>(null); // what is typed into the number field
  const { minimum = 0, maximum = 1, step = 0.01, initial, description = "" } = field ?? {};
  const title = SLIDERS[name];
  const shown = value ?? minimum;
  const type = () => {
    setDraft(null);
    if (draft !== null && draft !== "") set(Number(draft));
  };
  return (
    <div className="slider">
      <label htmlFor={id}>{title}</label>
      <button
        type="button"
        className="quiet"
        aria-label={`Reset ${title}`}
        hidden={typeof initial !== "number" || value === undefined || value === initial}
        onClick={() => set(initial as number)}
      >
        ↺
      </button>
      <input
        type="number"
        aria-label={`${title}, as a number`}
        aria-describedby={`${id}-error`}
        {...{ min: minimum, max: maximum, step: "any" }}
        value={draft ?? value ?? ""}
        onChange={({ target }) => setDraft(target.value)}
        onBlur={type}
        onKeyDown={({ key }) => key === "Enter" && type()}
      />
      <input
        type="range"
        id={id}
        aria-describedby={`${id}-hint ${id}-error`}
        {...{ min: minimum, max: maximum, step }}
        value={shown}
        style={{ "--part": (shown - minimum) / (maximum - minimum) } as CSSProperties}
        onChange={({ target }) => set(target.valueAsNumber)}
      />
      <p id={`${id}-hint`} className="hint">
        {description}
      </p>
      <p id={`${id}-error`} className="error" role="alert">
        {error && (error.code === "invalid_command" ? `A number from ${minimum} to ${maximum}.` : error.message)}
      </p>
    </div>
  );
}
