/** Hides the bar on the picture, and the mouse, while nobody moves it: in full screen alone (fullscreen.css). */

const RESTS_AFTER = 2500;

/** `stage` gets the class `idle` while the mouse rests on it, or is elsewhere, and `mayHide()`. */
export function hideWhenIdle(stage: HTMLElement, bar: HTMLElement, mayHide: () => boolean): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const rest = (): void => {
    if (mayHide() && !bar.matches(":hover")) stage.classList.add("idle");
    else wake();
  };
  const wake = (event?: Event): void => {
    if (event?.target instanceof Element && event.target.closest("#pads")) return; // who plays looks at the picture
    stage.classList.remove("idle");
    clearTimeout(timer);
    timer = setTimeout(rest, RESTS_AFTER);
  };
  stage.addEventListener("pointermove", wake);
  stage.addEventListener("pointerdown", wake);
  stage.addEventListener("pointerleave", rest);
  wake();
}
