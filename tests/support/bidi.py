"""Firefox by WebDriver BiDi: one browser, a tab for each test.

Playwright drives only a Firefox of its own build, and Debian has no geckodriver. Firefox itself speaks BiDi on a WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.started_program import started_program

#: The rest that automation needs (no updates, no telemetry, no network of its own) Firefox sets for a BiDi session itself.
PREFERENCES = {
    "media.navigator.streams.fake": True,  # a camera and a microphone
    "media.navigator.permission.disabled": True,  # both allowed
}
#: in seconds, for one command: a machine may be slow
PATIENCE = 90


class BidiPage:
    """A tab."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox = firefox
        self._context = context
        #: what came to the console, and errors that no script caught
        self.said: list[str] = []

    def go(self, url: str) -> None:
        """Load a page, with all that it loads itself."""
        self._firefox.call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def ask(self, script: str) -> Any:
        """The JSON value that `script`, the body of an async function, returns in the page."""
        answer = self._firefox.call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await (async () => {{ {script} }})()))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        if answer["type"] == "exception":
            raise AssertionError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"].get("value", "null"))

    def click(self, selector: str) -> None:
        """Click an element as a person does: the page may then play sound."""
        found = self._firefox.call(
            "browsingContext.locateNodes", context=self._context, locator={"type": "css", "value": selector}
        )
        (element,) = found["nodes"]
        origin = {"type": "element", "element": {"sharedId": element["sharedId"]}}
        press = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": origin},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        actions = [{"type": "pointer", "id": "mouse", "actions": press}]
        self._firefox.call("input.performActions", context=self._context, actions=actions)


class Firefox:
    """A BiDi session with a running Firefox."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = count(1)
        self._pages: dict[str, BidiPage] = {}
        self.version: str = self.call("session.new", capabilities={})["capabilities"]["browserVersion"]
        self.call("session.subscribe", events=["log.entryAdded"])

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command. Log entries that come before it are kept with their pages."""
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(PATIENCE))
            if message.get("id") == number:
                break
            if message.get("method") == "log.entryAdded":
                entry = message["params"]
                if page := self._pages.get(entry["source"].get("context")):
                    page.said.append(entry["text"])
        assert message["type"] == "success", f"{method}: {message['error']}: {message['message']}"
        return message["result"]

    @contextmanager
    def page(self) -> Iterator[BidiPage]:
        """A tab of its own, which shares no cookies and no storage with others."""
        user = self.call("browser.createUserContext")["userContext"]
        context = self.call("browsingContext.create", type="tab", userContext=user)["context"]
        page = self._pages[context] = BidiPage(self, context)
        try:
            yield page
        finally:
            self.call("browser.removeUserContext", userContext=user)
            del self._pages[context]


@contextmanager
def run_firefox(program: str, profile: Path) -> Iterator[Firefox]:
    """Firefox without a window, with an empty profile in the folder `profile`."""
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines))
    options = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
    with (
        started_program([program, *options], r"BiDi listening on (ws://\S+)") as firefox,
        connect(f"{firefox.ready}/session", max_size=None, open_timeout=PATIENCE) as connection,
    ):
        yield Firefox(connection)
