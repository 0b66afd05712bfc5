"""What a page learns of a refused WebSocket: nothing by HTTP, all of it with `refusals=bye`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from reactor_trio import RuntimeHost
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.interface import ReactorPipeline
from tests.support.models import Picture
from tests.support.page_promises import promised
from tests.support.page_windows import named

TOKEN = "a-token-of-the-server"
OPEN = """
url => new Promise(resolve => {
  const seen = { opened: false, texts: [] };
  const socket = new WebSocket(url, ["reactor.v1"]);
  socket.onopen = () => { seen.opened = true; seen.protocol = socket.protocol; };
  socket.onmessage = event => seen.texts.push(JSON.parse(event.data));
  socket.onclose = event => resolve({ ...seen, code: event.code, reason: event.reason, clean: event.wasClean });
})
"""


class Still(ReactorPipeline):
    output: Picture

    def inference(self) -> Any:
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(port=0, auth=AuthSettings(token=TOKEN), origins=("*",))
    with RuntimeHost(Still, name="still", settings=settings) as host:
        yield host.url


def go(page: Page, url: str) -> None:
    """Open a page of another origin: it is of `localhost`, and the server is called by its address."""
    page.goto(f"{url.replace('127.0.0.1', 'localhost')}health")


def ask(page: Page, url: str, query: str) -> dict[str, Any]:
    """What it sees."""
    return promised(page, OPEN, f"{url.replace('http', 'ws')}ws?{query}")


#: Query, status, beginning of the message, code of the close.
REFUSED = [
    ("", 401, "this server wants a token: Authorization: Bearer TOKEN, or token=TOKEN in the query", 1008),
    (f"token={TOKEN}&model=other", 404, "this server serves still, not other", 1008),
    (f"token={TOKEN}&video=hevc", 400, "video: this server encodes", 1008),
    (f"token={TOKEN}&role=viewer", 503, "no session runs that a viewer could watch", 1013),
]


def test_a_page_of_a_listed_origin_learns_why_it_is_refused(page: Page, url: str) -> None:
    go(page, url)
    for query, status, message, code in REFUSED:
        with named(query):
            seen = ask(page, url, f"refusals=bye&{query}".rstrip("&"))
            (bye,) = seen.pop("texts")
            assert seen == {"opened": True, "protocol": "reactor.v1", "code": code, "reason": "refused", "clean": True}
            assert (bye["type"], bye["data"]["reason"], bye["data"]["status"]) == ("reactor.bye", "refused", status)
            assert bye["data"]["message"].startswith(message)
            assert bye["data"]["retry_after"] == (1 if status == 503 else None)


def test_a_page_that_does_not_request_refusals_learns_no_reason(page: Page, url: str, troubles: list[str]) -> None:
    go(page, url)
    seen = ask(page, url, "model=other")
    assert (seen["opened"], seen["texts"], seen["code"], seen["reason"]) == (False, [], 1006, "")
    assert len(troubles) == 1, "and its console shows the address"
    troubles.clear()
