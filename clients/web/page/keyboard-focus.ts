/**
 * Returns the keyboard focus to the picture after the use of a control, so that the model's keys do not go to that control:
 * after a click on a button and, if the model has keys, after Enter and after choosing a value with the pointer. A user who
 * moves between controls with the keyboard keeps the focus there.
 */
const TYPED = "input[type=text], input[type=number], textarea";

/** `picture()` returns the canvas that gets the focus, or null; `hasKeys()` whether the model has keys now. */
export function returnFocus(picture: () => HTMLElement | null, hasKeys: () => boolean): void {
  let used: Element | null = null; // the control that the pointer pressed last; any key but Enter resets it

  const giveBack = (control: HTMLElement): void => {
    if (document.activeElement !== control) return; // the user has moved on
    control.blur();
    picture()?.focus({ preventScroll: true });
  };
  document.addEventListener(
    "pointerdown",
    ({ target }) => {
      if (target instanceof Element) used = target.closest("label")?.control ?? target;
    },
    true,
  );
  document.addEventListener(
    "keydown",
    ({ key }) => {
      if (key !== "Enter") used = null;
    },
    true,
  );
  document.addEventListener("click", ({ target, detail }) => {
    const button = target instanceof Element && target.closest<HTMLElement>("button, summary");
    if (button && detail > 0) giveBack(button);
  });
  document.addEventListener("change", ({ target }) => {
    if (hasKeys() && target === used && target instanceof HTMLElement) giveBack(target);
  });
  document.addEventListener("keydown", (event) => {
    const { target, key, isComposing, defaultPrevented } = event;
    if (key !== "Enter" || isComposing || !hasKeys()) return;
    if (!(target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement) || !target.matches(TYPED)) return;
    if (target.matches("textarea") && !defaultPrevented) return; // a new line
    // The browser's own handling of Enter comes too late: the next key may arrive before. Blurring the field commits its value.
    event.preventDefault();
    giveBack(target);
    if (!defaultPrevented) target.form?.requestSubmit();
  });
}
