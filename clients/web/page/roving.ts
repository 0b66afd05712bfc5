/** Buttons that are one stop of the Tab key; the arrow keys move between them (https://www.w3.org/WAI/ARIA/apg/patterns/toolbar/). */

const STEPS: { readonly [key: string]: number | undefined } = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
/** What a button's use depends on. */
const CHANGES = { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "disabled"] };

/** Makes the elements of `bar` that `selector` selects one stop, also those that come later. */
export function rove(bar: HTMLElement, selector: string): void {
  let chosen: HTMLElement | undefined;
  const usable = (): HTMLElement[] =>
    [...bar.querySelectorAll<HTMLElement>(selector)].filter((each) => !each.matches(":disabled") && each.closest("[hidden]") === null);
  const settle = (): void => {
    const all = usable();
    const stop = all.find((each) => each === chosen) ?? all[0];
    for (const each of all) each.tabIndex = each === stop ? 0 : -1;
  };
  bar.addEventListener("focusin", ({ target }) => {
    if (!(target instanceof HTMLElement) || !target.matches(selector)) return;
    chosen = target;
    settle();
  });
  bar.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const all = usable();
    const at = all.indexOf(event.target as HTMLElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    event.stopPropagation(); // it is not for the model
    const forth = Number.isFinite(step) && getComputedStyle(bar).direction === "rtl" ? -step : step;
    all[Math.min(all.length - 1, Math.max(0, at + forth))]?.focus();
  });
  new MutationObserver(settle).observe(bar, CHANGES);
  settle();
}
