"""Pages that use the package of clients/web, in a browser, at a real server's own origin."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

#: In the page, before its own scripts: what is opened, and what keeps it running.
WATCH = """
window.__REACT_DEVTOOLS_GLOBAL_HOOK__ = { isDisabled: true };  // React does not advertise its tools on the console
window.sockets = [];
window.timers = new Set();
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    sockets.push({ socket: this, closed: new Promise((resolve) => this.addEventListener("close", resolve)) });
  }
};
for (const kind of ["Timeout", "Interval"]) {
  const [set, clear] = [window[`set${kind}`], window[`clear${kind}`]];
  window[`set${kind}`] = (call, ...rest) => {
    const id = set((...given) => {
      if (kind === "Timeout") timers.delete(id);
      call(...given);
    }, ...rest);
    timers.add(id);
    return id;
  };
  window[`clear${kind}`] = (id) => {
    timers.delete(id);
    clear(id);
  };
}
window.until = async (call) => {
  for (const begun = performance.now(); performance.now() < begun + 60_000; ) {
    const value = await call();
    if (value) return value;
    await new Promise(requestAnimationFrame);
  }
  throw new Error(`a minute was not enough until ${call}`);
};
"""


def package_page(page: Page, address: str, folder: Path) -> Page:
    """Open `page` at `{address}package/`, which has the files of `folder`, with an empty index.html if there is none."""

    def answer(route: Route) -> None:
        name = route.request.url.partition("/package/")[2].partition("?")[0] or "index.html"
        if (folder / name).is_file():
            route.fulfill(content_type=mimetypes.guess_type(name)[0], body=(folder / name).read_bytes())
        elif name == "index.html":
            route.fulfill(content_type="text/html", body="<!doctype html><link rel=icon href=data:,><body></body>")
        else:
            route.fulfill(status=404)

    page.route("**/package/**", answer)
    page.add_init_script(WATCH)
    page.goto(f"{address}package/")
    return page


def ask(page: Page, script: str) -> Any:
    """The JSON value that `script`, the body of an async function, returns in the page."""
    return page.evaluate(f"async () => {{ {script} }}")
