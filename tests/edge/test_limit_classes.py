"""Each request counts in one limit of its address, whatever headers it has, and gives back only what it has taken."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.black import Black

from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import MemoryExchange
from reactor_trio.transport import Refused, Request

PEER = "198.51.100.7:4711"
UPGRADE = (
    ("host", "127.0.0.1"), ("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
)  # fmt: skip


def request(method: str, path: str, *headers: tuple[str, str]) -> Request:
    return Request(method=method, path=path, peer=PEER, host="127.0.0.1", authority="127.0.0.1", headers=headers)


async def refused(site, one: Request) -> str | None:
    """The code of the limit that refuses a request; None if none does."""
    try:
        await site.serve(MemoryExchange(site, one))
    except Refused as refused:
        code = refused.refusal.code
        return code if code.startswith("address_") else None
    return None


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/nothing", UPGRADE),
        ("GET", "/schema", UPGRADE),
        ("GET", "/ws", UPGRADE[:-1]),
        ("GET", "/ws", (*UPGRADE[:3], ("sec-websocket-version", "8"), UPGRADE[4])),
        ("GET", "/ws", (*UPGRADE, ("origin", "https://evil.test"))),
        ("POST", "/uploads", UPGRADE),
        ("DELETE", "/v1/sessions/some", UPGRADE),
    ],
    ids=["no path", "no websocket", "no key", "another version", "another origin", "an upload", "a deletion"],
)
async def test_a_request_that_is_no_handshake_counts_as_a_request(autojump_clock, method, path, headers):
    async with open_server(Black, limits={"http_per_minute": 3, "handshakes_per_minute": 1}) as server:
        answers = [await refused(server._site, request(method, path, *headers)) for _ in range(4)]
        assert answers == [None, None, None, "address_requests"]


async def test_a_handshake_counts_where_it_is_admitted(autojump_clock):
    async with open_server(Black, limits={"http_per_minute": 1, "handshakes_per_minute": 60}) as server:
        assert [await refused(server._site, request("GET", "/ws", *UPGRADE)) for _ in range(5)] == [None] * 5


async def test_a_wrong_token_of_an_upload_gives_no_handshake_back(autojump_clock):
    async with open_server(Black, limits={"handshakes_per_minute": 1, "http_per_minute": 600}) as server:
        site, handshake = server._site, request("GET", "/ws", *UPGRADE)
        assert await refused(site, handshake) is None
        upload = msgspec.structs.replace(request("POST", "/uploads", *UPGRADE), query={"token": "wrong"})
        assert await refused(site, upload) is None
        assert await refused(site, handshake) == "address_handshakes"
