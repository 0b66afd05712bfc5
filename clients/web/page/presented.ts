/** A field as its author wants it shown. */
import type { Field } from "../src/controls.ts";
import type { SettingPresentation } from "../src/index.ts";

/** What the author says of one argument; all of it may be absent. */
export type Presentation = Partial<SettingPresentation> | undefined;

/** The field with the author's label, and of the kind that the widget needs. `widgets.ts` adds what only some models have. */
export function presented<Some extends Field>(field: Some, { label, widget }: NonNullable<Presentation> = {}): Field {
  const titled = { ...field, title: label ?? field.title };
  if (titled.kind === "text" && widget) return { ...titled, long: widget === "textarea" };
  return titled.kind === "slider" && widget ? { ...titled, kind: "number" } : titled;
}
