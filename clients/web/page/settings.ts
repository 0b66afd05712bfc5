/** The model's settings in groups, with resets, a link that carries them, and the examples. Of one session. */
import type { SettingCommand } from "../src/controls.ts";
import type { ModelIntroduction, Setting } from "../src/index.ts";
import { type SettingControl, settingControl } from "./controls.ts";
import { byId, element } from "./dom.ts";
import { Presets } from "./presets.ts";
import { STRINGS } from "./strings.ts";
import type { Uploads } from "./uploads.ts";

/** Values of settings by field. */
export type Values = { readonly [field: string]: unknown };

const fieldOf = ({ name }: SettingCommand): string => name.slice("set_".length);

export class Settings {
  #controls = new Map<string, SettingControl>();
  #presets: Presets;
  #reset = byId("reset-settings", HTMLButtonElement);
  /** Elements for the list of settings: those of groups, and then the fold of advanced ones. */
  readonly elements: readonly HTMLElement[];

  /** `settingOf` gives the client's setting of a field; `base` is the address that pictures are relative to. */
  constructor(
    commands: readonly SettingCommand[],
    about: ModelIntroduction | undefined,
    settingOf: (field: string) => Setting<unknown>,
    uploads: Uploads,
    base: string | URL,
  ) {
    const settings = new Map(commands.map((command) => [fieldOf(command), settingOf(fieldOf(command))]));
    const told = [...settings.values()].some(({ value }) => value !== undefined);
    const groups = new Map<string | null, HTMLElement[]>([[null, []]]); // those without a group come first
    const advanced: HTMLElement[] = [];
    for (const command of commands) {
      const field = fieldOf(command);
      const setting = settings.get(field) as Setting<unknown>;
      const hint = about?.settings[field];
      const { group = null, advanced: isAdvanced = false } = hint ?? {};
      const control = settingControl(command, setting, { told, uploads, hint, onvalue: () => this.#changed() });
      this.#controls.set(field, control);
      if (isAdvanced) advanced.push(control.element);
      else groups.set(group, [...(groups.get(group) ?? []), control.element]);
    }
    this.#presets = new Presets(about?.examples ?? [], this.#controls, base);
    this.elements = [
      ...[...groups]
        .filter(([, controls]) => controls.length)
        .map(([name, controls]) => element("div", { class: "group" }, name === null ? null : element("h3", {}, name), ...controls)),
      ...(advanced.length
        ? [
            element(
              "details",
              { class: "advanced" },
              element("summary", {}, STRINGS.settings.advanced),
              element("div", { class: "group" }, ...advanced),
            ),
          ]
        : []),
    ];
    this.#changed();
  }

  get presets(): readonly HTMLElement[] {
    return this.#presets.elements;
  }

  /** Sends these values; those of fields that the model does not have are ignored. */
  give(values: Values): void {
    for (const [field, value] of Object.entries(values)) this.#controls.get(field)?.set(value);
  }

  /** The values that differ from their defaults. */
  get changed(): Values {
    const changed = [...this.#controls].filter(([, control]) => control.changed && control.value !== undefined);
    return Object.fromEntries(changed.map(([field, { value }]) => [field, value]));
  }

  /** Sends the values that the page's address carries. */
  async take(address: string): Promise<void> {
    const { valuesIn } = await import("./settings-link.ts");
    this.give(valuesIn(address));
  }

  /** The page's address with the settings that differ from their defaults. */
  async address(address: string): Promise<string> {
    const { addressWith } = await import("./settings-link.ts");
    return addressWith(this.changed, address);
  }

  reset(): void {
    for (const control of this.#controls.values()) if (control.changed) control.reset();
  }

  close(): void {
    for (const control of this.#controls.values()) control.close();
  }

  #changed(): void {
    this.#reset.disabled = ![...this.#controls.values()].some(({ changed }) => changed);
    this.#presets?.refresh(); // the first values come while the controls are made
  }
}
