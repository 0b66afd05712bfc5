/** Elements that every part of the page uses. */

/** Creates an element. The page uses no other way, so text becomes text, never markup. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A line that shows why a command was refused. It ignores the end of the connection, which the page shows elsewhere. */
export function refusalLine() {
  const line = element("p", { class: "refusal", role: "alert", hidden: true });
  const self = {
    element: line,
    show(error) {
      if (error.code === "closed") return;
      line.textContent = error.message;
      line.hidden = false;
    },
    hide() {
      line.hidden = true;
      line.textContent = "";
    },
    /** Waits for a command's answer, and shows its refusal if it rejects. Never rejects itself. */
    async follow(answer) {
      try {
        await answer;
        self.hide();
      } catch (error) {
        self.show(error);
      }
    },
  };
  return self;
}
