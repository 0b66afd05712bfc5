/** The model's examples: cards that set several settings at once. */
import type { ModelIntroduction } from "../src/index.ts";
import type { SettingControl } from "./controls.ts";
import { element } from "./dom.ts";

type Example = ModelIntroduction["examples"][number];

/** The cards of `examples`. `settings` are the controls by field, `base` the address that pictures are relative to. */
export class Presets {
  readonly elements: readonly HTMLButtonElement[];
  #examples: readonly Example[];
  #settings: ReadonlyMap<string, SettingControl>;

  constructor(examples: readonly Example[], settings: ReadonlyMap<string, SettingControl>, base: string | URL) {
    this.#examples = examples;
    this.#settings = settings;
    const pictured = examples.some(({ picture }) => picture !== null);
    this.elements = examples.map((example) => {
      const blank = element("span", { class: "blank", "aria-hidden": "true" }, example.name.slice(0, 1).toUpperCase());
      const picture = example.picture
        ? element("img", { src: new URL(example.picture, base).href, alt: "", loading: "lazy", width: 132, height: 74 })
        : blank;
      picture.addEventListener("error", () => picture.replaceWith(blank));
      const card = element(
        "button",
        { type: "button", class: "preset", "aria-pressed": "false" },
        pictured ? picture : null,
        element("span", { dir: "auto" }, example.name),
      );
      card.addEventListener("click", () => {
        for (const [field, value] of Object.entries(example.values)) settings.get(field)?.set(value);
      });
      return card;
    });
  }

  /** Marks the examples whose values the settings have now. */
  refresh(): void {
    this.#examples.forEach(({ values }, i) => {
      const chosen = Object.entries(values).every(([field, value]) => this.#settings.get(field)?.shows(value));
      this.elements[i]?.setAttribute("aria-pressed", String(chosen));
    });
  }
}
