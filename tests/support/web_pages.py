"""Pages of an application that uses the npm package: its folder, its web server, Vite, and a browser."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.browser.conftest import FLAGS, chromium
from tests.support import needs
from tests.support.package_page import WATCH
from tests.support.page_scripts import READ_BACK
from tests.support.started_program import started_program
from tests.support.web_client import WEB, build_package, node, node_program

if TYPE_CHECKING:
    from playwright.sync_api import Page, Playwright

#: In the page: the canvas of the page or of its element; null before a worker draws on it. A test that looked at it earlier
#: would give it a context, and then no worker can have it.
CANVAS = """
const transfer = HTMLCanvasElement.prototype.transferControlToOffscreen;
const drawn = new WeakSet();
HTMLCanvasElement.prototype.transferControlToOffscreen = function () {
  drawn.add(this);
  return transfer.call(this);
};
window.canvasOfPage = () => {
  const roots = [document, ...[...document.querySelectorAll("reactor-view")].map(({ shadowRoot }) => shadowRoot)];
  return roots.map((root) => root?.querySelector("canvas")).find((canvas) => drawn.has(canvas)) ?? null;
};
window.pixels = (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
"""
#: whether the mean colour value of the page's picture is between two bounds
MEAN_IS_BETWEEN = """([low, high]) => {
    const canvas = canvasOfPage();
    if (canvas === null) return false;
    const data = pixels(canvas);
    const mean = data.reduce((sum, value, i) => i % 4 === 3 ? sum : sum + value, 0) / (data.length / 4 * 3);
    return low < mean && mean < high;
}"""
#: whether the page has shown so many different pictures since it was first asked; to be asked at each animation frame
HAS_SHOWN = """(count) => {
    const canvas = canvasOfPage();
    window.shown ??= new Set();
    if (canvas !== null) shown.add(new TextDecoder("latin1").decode(pixels(canvas)));
    return shown.size >= count;
}"""


#: how lines on the console begin that are a development server's own; the last one is about WATCH, which hides React's tools
DEV_SERVERS = ("[vite]", "[HMR]", "[Fast Refresh]", "Something has shimmed the React DevTools")


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


#: the packages of an application of React
REACT_PACKAGES = ("react", "react-dom", "scheduler")


def install(folder: Path, *others: str) -> None:
    """Put the package, as npm does, and others into an application's `node_modules`."""
    build_package()
    packages = folder / "node_modules"
    shutil.copytree(WEB / "dist", packages / "reactor-trio" / "dist")
    shutil.copy(WEB / "package.json", packages / "reactor-trio")
    for name in others:
        shutil.copytree(WEB / "node_modules" / name, packages / name)


@contextmanager
def web_site(folder: Path) -> Iterator[str]:
    """A web server for files, as `python3 -m http.server`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def vite() -> Path:
    """Vite, as a program for Node."""
    program = WEB / "node_modules" / "vite" / "bin" / "vite.js"
    if not program.exists():
        needs.missing("the packages of clients/web, which are not installed: run scripts/web test")
    return program


def build_by_vite(folder: Path, *options: str) -> None:
    """Run `vite build` in an application's folder."""
    node(vite(), "build", *options, "--logLevel", "warn", cwd=folder)


@contextmanager
def dev_server(command: Sequence[str | Path], folder: Path) -> Iterator[str]:
    """The address of a framework's web server: a program for Node, with its arguments, that says where it listens."""
    with started_program([node_program(), *command], r"Local:\s*(http://[\w.]+:\d+)", cwd=folder) as server:
        try:
            yield server.ready
        finally:
            server.process.terminate()  # it ends the programs that it has started
            server.process.wait()


@contextmanager
def page_at_8080(playwright: Playwright, model: str) -> Iterator[Page]:
    """A page whose browser finds the model at http://localhost:8080, wherever it is."""
    rule = f"--host-resolver-rules=MAP localhost:8080 127.0.0.1:{urlsplit(model).port}"
    browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS[:-1], rule])
    page = browser.new_page()
    page.set_default_timeout(90_000)
    page.add_init_script(WATCH + READ_BACK + CANVAS)
    yield page
    browser.close()


@contextmanager
def watched(page: Page, address: str) -> Iterator[None]:
    """Open `address`, and leave it at the end, when nothing may have gone wrong and nothing may be on the console."""
    said: list[str] = []
    page.on("console", lambda message: None if message.text.startswith(DEV_SERVERS) else said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    try:
        yield
        assert not said, said
    finally:
        page.goto("about:blank")  # the model has one session, which the next one waits for


def import_map(folder: Path) -> str:
    """The import map that makes a browser find the package without a bundler."""
    exported = json.loads((folder / "node_modules" / "reactor-trio" / "package.json").read_text())["exports"]
    files = {
        "reactor-trio" + entry.removeprefix("."): f"./node_modules/reactor-trio/{target['default']}"
        for entry, target in exported.items()
        if isinstance(target, dict)
    }
    return f'<script type="importmap">{json.dumps({"imports": files})}</script>'
