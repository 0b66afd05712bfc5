/** What every part of the page is made of. */

/** The one way in which this page makes elements: text becomes text, never markup. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Where a refusal is read; that the connection ended is told elsewhere. */
export function refusalLine() {
  const line = element("p", { class: "refusal", role: "alert", hidden: true });
  return {
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
  };
}
