"""How soon the web client tells a lost link, and how soon it is back: in Chromium, over loopback.

A model paints 640x480 at 30 fps, in the best codec that the browser decodes, and a relay resets the link and lets the next
connection through at once. `told` is from the reset until the client's state is `resuming`, `back` from then until it is
`live`, `picture` from then until the first picture of the new link is drawn. The client waits up to 100 ms by chance before
its first try, so that not all clients of a server come at once. `offline` is the browser's event of that name, which the
client takes for a loss: from the event until the state is `resuming`.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.cut_link import CutLink, cut_link

from benchmarks.peers import reactor_run
from benchmarks.pictures import clip_model
from benchmarks.report import SPREAD, Report, spread

#: a page that did not come over the network may connect to this machine
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-features=LocalNetworkAccessChecks"]  # fmt: skip

MODEL = clip_model(640, 480, 30)

BEGIN = """async () => {
  const { connect } = await import("/page/client.js");
  const clock = () => performance.timeOrigin + performance.now();
  window.client = connect("/", { memory: null, workers: { pictures: "/page/decoder-worker.js" } });
  window.told = { resuming: 0, live: 0, picture: 0 };
  client.on("state", ({ status }) => {
    if (status in told) told[status] = clock();
  });
  const seen = () => {
    if (told.live > told.picture && client.state.status === "live") told.picture = clock();
  };
  client.attach(document.body.appendChild(document.createElement("canvas")), { onPresented: seen });
  window.drawn = async (lost) => {
    while (told.resuming < lost || told.live < told.resuming || told.picture <= told.live)
      await new Promise((resolve) => setTimeout(resolve, 10));
    return told;
  };
  window.leave = () => {
    const event = clock();
    dispatchEvent(new Event("offline"));
    return event;
  };
  await drawn(0);
}"""


def run(report: Report, *, quick: bool) -> None:
    """Losses one after the other, each after the picture that ended the one before."""
    for what, there in (("Playwright", importlib.util.find_spec("playwright")), ("Chromium", shutil.which("chromium"))):
        if not there:
            report.note(f"not measured: {what} is not installed")
            return
    losses = 20 if quick else 100
    from playwright.sync_api import sync_playwright

    resets, events = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        reactor_run(Path(folder), MODEL, resume_window=60, limits={"handshakes_per_minute": 0}) as server,
        cut_link(server.port) as link,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS) as browser,
    ):
        page = browser.new_page()
        address = f"http://127.0.0.1:{link.port}/"
        page.route(f"{address}empty", lambda route: route.fulfill(content_type="text/html", body="<body></body>"))
        page.goto(f"{address}empty")
        page.evaluate(BEGIN)
        for _ in range(losses):
            resets.append(_lose(page, link))
            events.append(_go_offline(page))
        page.evaluate("client.close()")
    rows = [
        ["told, of a reset", *spread([told["resuming"] - lost for lost, told in resets], 1)],
        ["told, of offline", *spread([told["resuming"] - lost for lost, told in events], 1)],
        ["back", *spread([told["live"] - told["resuming"] for _, told in resets + events], 1)],
        ["picture", *spread([told["picture"] - told["live"] for _, told in resets + events], 1)],
    ]
    report.table(f"ms of {losses} resets and {losses} events offline", ["what", *SPREAD], rows)
    p95 = SPREAD.index("p95") + 1
    report.bar("a lost link is told (p95)", rows[0][p95], 100, "ms")
    report.bar("offline is told (p95)", rows[1][p95], 100, "ms")
    report.bar("back (p95)", rows[2][p95], 500, "ms")


def _lose(page: Any, link: CutLink) -> tuple[float, dict[str, float]]:
    """When the link was reset, and the page's times after it, in ms of the wall clock."""
    lost = time.time() * 1000
    link.drop()
    link.restore()
    return lost, page.evaluate("(lost) => drawn(lost)", lost)


def _go_offline(page: Any) -> tuple[float, dict[str, float]]:
    lost = page.evaluate("leave()")
    return lost, page.evaluate("(lost) => drawn(lost)", lost)
