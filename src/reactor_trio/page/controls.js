/**
 * Controls for the commands of a schema. A setting has at most one value under way, and shows what the model has whenever
 * the user is not changing it: what the server tells, and after a refusal the value that the model has kept.
 *
 * `send(name, data)` is the session's `command`; `reply(name, value)` is told what an action's handler returned;
 * `uploads` is where files go.
 */
import { element, refusalLine } from "./dom.js";
import { createField } from "./fields.js";
import { Coalescer } from "./coalesce.js";

/** `session` is the open session, which knows the values of settings. */
export function settingControl({ name, description, field }, send, uploads, session) {
  const view = createField({ ...field, description: field.description || description }, uploads);
  const refusal = refusalLine();
  const control = element("div", { class: "control", "data-command": name }, view.element, refusal.element);
  let value = valueNow(field, session.state); // that the model has
  let invalid = false; // what stands in the field is no value, and the refusal says why
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
  // A value that comes while one of ours is under way is older than that, or is followed by the newest.
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
  // Of a model with settings a file is left out: there is one, whatever the default says.
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
