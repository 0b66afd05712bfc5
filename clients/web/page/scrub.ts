/** Dragging the label of a number sideways changes it. */

const PIXELS_A_STEP = 4;

/** How the label of a number is dragged. */
export interface Scrubbed {
  /** The value now, or NaN. */
  value(): number;
  /** The size of a step for a drag; with Shift held it is ten times as large. */
  readonly step: number;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  /** Takes a value of the drag. */
  changed(value: number): void;
  /** The drag is over. */
  ended(): void;
}

/** Listens to `label`. A drag of the mouse or of a pen changes the number; a click goes on to the control as before. */
export function scrub(label: HTMLElement, { value, step, minimum = -Infinity, maximum = Infinity, changed, ended }: Scrubbed): void {
  let drag: { readonly pointer: number; readonly x: number; readonly from: number; moved: boolean } | null = null;
  label.classList.add("scrub");
  label.addEventListener("pointerdown", ({ pointerId, pointerType, button, clientX }) => {
    const from = value();
    if (button !== 0 || pointerType === "touch" || Number.isNaN(from) || label.closest(":disabled")) return;
    drag = { pointer: pointerId, x: clientX, from, moved: false };
    label.setPointerCapture(pointerId);
  });
  label.addEventListener("pointermove", ({ pointerId, clientX, shiftKey }) => {
    if (drag?.pointer !== pointerId) return;
    const steps = Math.trunc((clientX - drag.x) / PIXELS_A_STEP);
    if (steps === 0 && !drag.moved) return;
    drag.moved = true;
    const size = shiftKey ? step * 10 : step;
    const wanted = Math.min(maximum, Math.max(minimum, drag.from + steps * size));
    changed(Number(wanted.toPrecision(12))); // without the dust of binary fractions
  });
  const end = ({ pointerId }: PointerEvent): void => {
    if (drag?.pointer !== pointerId) return;
    if (drag.moved) ended();
    // A drag is no click: the label would move the focus to its control.
    if (drag.moved) label.addEventListener("click", (event) => event.preventDefault(), { once: true });
    drag = null;
  };
  label.addEventListener("pointerup", end);
  label.addEventListener("pointercancel", end);
}
