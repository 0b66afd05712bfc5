/**
 * Gives the keyboard back to the picture when a control has been used, so that the keys of a model do not go on into it: after
 * a click on a button, and if the model has keys also after Enter, and after a value was chosen with the pointer. Who goes
 * from control to control by keyboard stays there.
 */
const TYPED = "input[type=text], input[type=number], textarea";

/** `picture()` gives the canvas that takes the keyboard, or null; `hasKeys()` whether the model has keys now. */
export function returnFocus(picture, hasKeys) {
  let used = null; // the control that the pointer pressed last, until a key is pressed that is not Enter

  const giveBack = (control) => {
    if (document.activeElement !== control) return; // the user is elsewhere already
    control.blur();
    picture()?.focus({ preventScroll: true });
  };
  document.addEventListener("pointerdown", ({ target }) => { used = target.closest("label")?.control ?? target; }, true);
  document.addEventListener("keydown", ({ key }) => { if (key !== "Enter") used = null; }, true);
  document.addEventListener("click", ({ target, detail }) => {
    const button = target.closest("button, summary");
    if (button && detail > 0) giveBack(button);
  });
  document.addEventListener("change", ({ target }) => {
    if (hasKeys() && target === used) giveBack(target);
  });
  document.addEventListener("keydown", (event) => {
    const { target, key, isComposing, defaultPrevented } = event;
    if (key !== "Enter" || isComposing || !hasKeys() || !target.matches(TYPED)) return;
    if (target.matches("textarea") && !defaultPrevented) return; // a new line
    // What Enter does to a field by itself comes too late: the next key may be there before. Leaving it tells its value.
    event.preventDefault();
    giveBack(target);
    if (!defaultPrevented) target.form?.requestSubmit();
  });
}
