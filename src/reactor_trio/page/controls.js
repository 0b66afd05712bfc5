/**
 * Controls for the commands of a schema. The control of a setting has at most one value in flight. While the user does not
 * change it, it shows the model's value.
 *
 * `send(name, data)` is the session's `command`; `reply(name, value)` gets the return value of an action's handler;
 * `uploads` sends files.
 */
import { Coalescer } from "./coalesce.js";
import { element, refusalLine } from "./dom.js";
import { createField } from "./fields.js";

/** `session` is the open session, which has the values of settings. */
export function settingControl({ name, description, field }, send, uploads, session) {
  const view = createField({ ...field, description: field.description || description }, uploads);
  const refusal = refusalLine();
  const control = element("div", { class: "control", "data-command": name }, view.element, refusal.element);
  let value = valueNow(field, session.state); // the model's
  let invalid = false; // the field's content is not a valid value; the refusal line says why
  view.write(value);

  const sender = new Coalescer(async (given) => {
    control.classList.add("busy");
    try {
      await send(name, { [field.name]: given });
      value = given;
      refusal.hide();
    } catch (error) {
      refusal.show(error);
      if (!sender.waiting && !view.editing) view.write(value);
    }
    control.classList.toggle("busy", sender.waiting);
  });
  view.onchange = () => {
    let given;
    try {
      given = view.read();
    } catch (error) {
      refusal.show(error);
      invalid = !view.empty;
      if (view.empty) view.write(value);
      return;
    }
    invalid = false;
    refusal.hide();
    sender.push(given);
  };
  // A value that arrives while one of ours is in flight is older, or the newest value follows it.
  const show = () => {
    if (!sender.busy && !view.editing && !invalid) view.write(value);
  };
  view.onleft = show;
  session.addEventListener("state", ({ detail }) => {
    if (!Object.hasOwn(detail, field.name)) return;
    value = detail[field.name];
    show();
  });
  return control;
}

function valueNow({ name, kind, initial }, state) {
  if (Object.hasOwn(state, name)) return state[name];
  // The server leaves files out of the state; the field of a model with settings is then empty, whatever the default says.
  return kind === "upload" && Object.keys(state).length > 0 ? undefined : initial;
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
      // The model's own default applies to an argument that the user has not changed.
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
  // If a file is the only argument, its command is sent when the upload is complete.
  if (views.length === 1 && views[0].field.kind === "upload") views[0].view.onchange = () => control.requestSubmit();
  // A text field prevents the default of Enter, because in a setting Enter sends the field; here Enter sends the whole form.
  // Holding Enter sends it once.
  control.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    if (!event.repeat && event.defaultPrevented) control.requestSubmit();
    if (event.repeat && event.target === button) event.preventDefault();
  });
  return control;
}
