/** Light or dark: as the system says, until the user chooses. */
import { icon } from "./dom.ts";
import type { SafeStorage } from "./storage.ts";
import { STRINGS } from "./strings.ts";

const KEY = "theme";
const THEMES = ["system", "light", "dark"] as const;
/** Lines of the drawings; the first of "system" is filled. */
const DRAWINGS = {
  system: ["M8 2a6 6 0 0 1 0 12z", "M8 2a6 6 0 0 0 0 12"],
  light: [
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  ],
  dark: ["M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z"],
};

/** Makes `button` go through system, light and dark. `preferences` keeps the choice. */
export function offerThemes(button: HTMLElement, preferences: SafeStorage): void {
  const kept = preferences.get(KEY);
  let theme = THEMES.find((each) => each === kept) ?? "system";
  const show = (): void => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.title = STRINGS.themes[theme];
    button.setAttribute("aria-label", button.title);
    button.replaceChildren(icon(DRAWINGS[theme], { filled: theme === "system" }));
  };
  button.addEventListener("click", () => {
    theme = THEMES[THEMES.indexOf(theme) + 1] ?? "system";
    preferences.set(KEY, theme === "system" ? null : theme);
    show();
  });
  show();
}
