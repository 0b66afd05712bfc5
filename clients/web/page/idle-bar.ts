/** Hides the bar on the picture, and the mouse, while nobody moves it: in full screen alone (fullscreen.css). */

const RESTS_AFTER = 2500;
/** A finger must get to the bar after the tap that showed it. */
const FINGER_RESTS_AFTER = 4000;

/** `stage` gets the class `idle` while the mouse rests on it, or is elsewhere, and `mayHide()`. */
export function hideWhenIdle(stage: HTMLElement, bar: HTMLElement, mayHide: () => boolean): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let mouse = false;
  const rest = (): void => {
    if (mayHide() && !(mouse && bar.matches(":hover"))) stage.classList.add("idle");
    else wake();
  };
  const wake = (event?: Event): void => {
    if (event?.target instanceof Element && event.target.closest("#pads")) return; // who plays looks at the picture
    if (event instanceof PointerEvent) mouse = event.pointerType === "mouse";
    stage.classList.remove("idle");
    clearTimeout(timer);
    timer = setTimeout(rest, mouse ? RESTS_AFTER : FINGER_RESTS_AFTER);
  };
  stage.addEventListener("pointermove", wake);
  let woken = false; // by the press that is under way
  stage.addEventListener("pointerdown", (event) => {
    woken = stage.classList.contains("idle") && event.pointerType !== "mouse";
    wake(event);
  });
  // The bar is there again when the finger is lifted, and a click would be that of the button which has come under it.
  const swallow = (event: Event): void => {
    if (woken) event.stopPropagation();
    woken = false;
  };
  bar.addEventListener("click", swallow, { capture: true });
  stage.addEventListener("pointerleave", () => mouse && rest()); // a finger leaves each time it is lifted
  document.addEventListener("fullscreenchange", wake);
  wake();
}
