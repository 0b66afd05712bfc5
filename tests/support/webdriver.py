"""WebKitGTK by WebDriver: one browser on a screen of its own, driven over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.support.free_port import free_port

#: in seconds, for one command: a machine may be slow
PATIENCE = 90
#: MiniBrowser's: a camera and a microphone that are not real
ARGUMENTS = ["--automation", "--enable-media-stream=true", "--enable-mock-capture-devices=true"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the specification's name for "this is an element"


class WebKit:
    """A WebDriver session with one window, which shows one page after the other."""

    #: WebDriver tells nothing of the console
    said: list[str] = []

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._session = "/session"
        wanted = {"timeouts": {"script": PATIENCE * 1000}, "webkitgtk:browserOptions": {"args": ARGUMENTS}}
        begun = self.call("POST", "", capabilities={"alwaysMatch": wanted})
        self.version: str = begun["capabilities"]["browserVersion"]
        self._session += "/" + begun["sessionId"]

    def call(self, method: str, path: str, **body: Any) -> Any:
        """The value that the driver answers."""
        self._connection.request(method, self._session + path, json.dumps(body) if method == "POST" else None)
        answer = self._connection.getresponse()
        value = json.loads(answer.read())["value"]
        assert answer.status == 200, f"{path}: {value['error']}: {value['message']}"
        return value

    def go(self, url: str) -> None:
        """Load a page, with all that it loads itself."""
        self.call("POST", "/url", url=url)

    def ask(self, script: str) -> Any:
        """The JSON value that `script`, the body of an async function, returns in the page."""
        body = f"""
          const done = arguments[0];
          (async () => {{ {script} }})().then(
            (value) => done({{ value: JSON.stringify(value) }}),
            (error) => done({{ error: String(error) }}),
          );
        """
        answer = self.call("POST", "/execute/async", script=body, args=[])
        if "error" in answer:
            raise AssertionError(answer["error"])
        return json.loads(answer.get("value") or "null")

    def click(self, selector: str) -> None:
        """Click an element as a person does: the page may then play sound."""
        element = self.call("POST", "/element", using="css selector", value=selector)[ELEMENT]
        self.call("POST", f"/element/{element}/click")

    @contextmanager
    def page(self) -> Iterator[WebKit]:
        """The window, which then shows nothing."""
        try:
            yield self
        finally:
            self.go("about:blank")


@contextmanager
def _screen() -> Iterator[str]:
    """The name of an X display that nobody sees."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server, open(reading) as ready:
        os.close(writing)
        try:
            number = ready.readline().strip()
            assert number, "Xvfb did not start"
            yield f":{number}"
        finally:
            server.terminate()


@contextmanager
def run_webkit() -> Iterator[WebKit]:
    """WebKitGTK's MiniBrowser, with a profile that is forgotten."""
    port = free_port()
    with _screen() as display:
        environment = {**os.environ, "DISPLAY": display, "GDK_BACKEND": "x11"}
        with subprocess.Popen(["WebKitWebDriver", f"--port={port}"], env=environment, stderr=subprocess.DEVNULL) as driver:
            try:
                _wait_for(driver, port)
                with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
                    browser = WebKit(connection)
                    yield browser
                    browser.call("DELETE", "")
            finally:
                driver.terminate()


def _wait_for(driver: subprocess.Popen[bytes], port: int) -> None:
    """The driver says nowhere that it listens."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and driver.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("WebKitWebDriver did not start")
