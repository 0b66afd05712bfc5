"""From the URL that a user has to those of the WebSocket and of what lies beside it; the web client has the same rule."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

import reactor_trio.client.route as route
from reactor_trio.client import connect
from reactor_trio.client.urls import path_beside, session_url


@pytest.mark.parametrize(
    ("url", "websocket"),
    [
        ("http://h", "ws://h/ws"),
        ("https://h/", "wss://h/ws"),
        ("https://h/demo/", "wss://h/demo/ws"),
        ("https://h/demo/index.html", "wss://h/demo/ws"),
        ("https://h/demo/ws", "wss://h/demo/ws"),
        ("ws://h", "ws://h/ws"),
        ("wss://h/demo/", "wss://h/demo/ws"),
        ("wss://h/demo/socket", "wss://h/demo/socket"),
        ("ws://h/v1/queue", "ws://h/v1/queue"),
    ],
)
def test_the_websocket_of_a_url(url, websocket):
    assert session_url(url, video=["raw"]).partition("?")[0] == websocket
    beside = urlsplit(websocket).path.rpartition("/")[0] + "/uploads"
    assert path_beside(urlsplit(websocket).path, "uploads") == beside


async def test_the_argument_token_is_used_before_one_in_the_url(monkeypatch):
    shown = []

    async def refuse(url, *, token, **_options):
        shown.append((url, token))
        raise ConnectionError("enough seen")

    monkeypatch.setattr(route, "open_websocket", refuse)
    for token in "argument", None:
        with pytest.raises(ConnectionError):
            async with connect("ws://h/ws?token=in-url", token=token):
                pytest.fail("entered")
    assert [token for _, token in shown] == ["argument", "in-url"]
    assert all("token" not in url for url, _ in shown)
