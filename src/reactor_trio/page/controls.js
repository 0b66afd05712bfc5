/**
 * Controls for the commands of a schema. A setting has at most one value under way; what the server refuses is shown
 * at its control, which goes back to the last value that the server took.
 *
 * `send(name, data)` is the session's `command`; `reply(name, value)` is told what an action's handler returned;
 * `uploads` is where files go.
 */
import { element, refusalLine } from "./dom.js";
import { createField } from "./fields.js";
import { Latest } from "./latest.js";

export function settingControl({ name, description, field }, send, uploads) {
  const view = createField({ ...field, description: field.description || description }, uploads);
  const refusal = refusalLine();
  const control = element("div", { class: "control", "data-command": name }, view.element, refusal.element);
  let accepted = field.initial;
  view.write(accepted);

  const latest = new Latest(async (value) => {
    control.classList.add("busy");
    try {
      await send(name, { [field.name]: value });
      accepted = value;
      refusal.hide();
    } catch (error) {
      refusal.show(error);
      if (!latest.waiting) view.write(accepted);
    }
    control.classList.toggle("busy", latest.waiting);
  });
  view.onchange = () => {
    let value;
    try {
      value = view.read();
    } catch (error) {
      refusal.show(error);
      return;
    }
    refusal.hide();
    latest.push(value);
  };
  return control;
}

export function actionControl({ name, title, description, fields }, send, reply, uploads) {
  const views = fields.map((field) => {
    const view = createField(field, uploads);
    view.write(field.initial);
    return { field, view };
  });
  const refusal = refusalLine();
  const button = element("button", { type: "submit", class: "action" }, title);
  const hint = description ? element("p", { class: "description" }, description) : null;
  const control = element(
    "form",
    { class: fields.length ? "control card" : "control", "data-command": name, novalidate: true },
    ...(fields.length ? [hint, ...views.map(({ view }) => view.element), button] : [button, hint]),
    refusal.element,
  );
  let unanswered = 0;
  const act = async (data) => {
    unanswered += 1;
    control.classList.add("busy");
    try {
      const answer = await send(name, data);
      refusal.hide();
      if (answer.reply !== undefined && answer.reply !== null) reply(name, answer.reply);
    } catch (error) {
      refusal.show(error);
    }
    unanswered -= 1;
    control.classList.toggle("busy", unanswered > 0);
  };
  control.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = {};
    for (const { field, view } of views) {
      // What the user left alone is left to the model's own default.
      if (!field.required && !view.touched) continue;
      try {
        data[field.name] = view.read();
      } catch (error) {
        refusal.show(new Error(`${field.title}: ${error.message}`));
        return;
      }
    }
    refusal.hide();
    act(data);
  });
  // A file that is all there is to say is said once it has arrived.
  if (views.length === 1 && views[0].field.kind === "upload") views[0].view.onchange = () => control.requestSubmit();
  // A text field keeps Enter from its form, because alone it means "send this"; here that is the whole form.
  // Enter that is held acts once.
  control.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    if (!event.repeat && event.defaultPrevented) control.requestSubmit();
    if (event.repeat && event.target === button) event.preventDefault();
  });
  return control;
}
