/** Hides the bar on the picture, and the mouse, while the mouse rests. Fingers and pens see the bar always. */

const RESTS_AFTER = 2500;

/** `hero` gets the class `idle` while the mouse rests on it, or is elsewhere, and `mayHide()`. */
export function hideWhenIdle(hero: HTMLElement, bar: HTMLElement, mayHide: () => boolean): void {
  if (!matchMedia("(hover: hover)").matches) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const rest = (): void => {
    if (mayHide() && !bar.matches(":hover")) hero.classList.add("idle");
    else wake();
  };
  const wake = (): void => {
    hero.classList.remove("idle");
    clearTimeout(timer);
    timer = setTimeout(rest, RESTS_AFTER);
  };
  hero.addEventListener("pointermove", wake);
  hero.addEventListener("pointerdown", wake);
  hero.addEventListener("pointerleave", rest);
  wake();
}
