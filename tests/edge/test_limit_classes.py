"""Each request counts in one limit of its address, whatever headers it has, and gives back only what it has taken."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.black import Black

from reactor_trio.testing import open_server
from reactor_trio.transport import Request

PEER = "198.51.100.7:4711"
UPGRADE = (
    ("host", "127.0.0.1"), ("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
)  # fmt: skip


def request(method: str, path: str, *headers: tuple[str, str]) -> Request:
    return Request(method=method, path=path, peer=PEER, host="127.0.0.1", authority="127.0.0.1", headers=headers)


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
        site = server._site
        answers = [site.over_limit(request(method, path, *headers)) for _ in range(4)]
        assert [answer and answer.refusal for answer in answers] == [None, None, None, "address_requests"]


async def test_a_handshake_counts_where_it_is_admitted(autojump_clock):
    async with open_server(Black, limits={"http_per_minute": 1, "handshakes_per_minute": 60}) as server:
        site = server._site
        assert [site.over_limit(request("GET", "/ws", *UPGRADE)) for _ in range(5)] == [None] * 5


async def test_a_wrong_token_of_an_upload_gives_no_handshake_back(autojump_clock):
    async with open_server(Black, limits={"handshakes_per_minute": 1, "http_per_minute": 600}) as server:
        site, handshake = server._site, request("GET", "/ws", *UPGRADE)
        assert site.addresses.refusal(handshake) is None
        upload = msgspec.structs.replace(request("POST", "/uploads", *UPGRADE), query={"token": "wrong"})
        assert site.over_limit(upload) is None
        assert site.addresses.failed(upload, site._counts_as(upload)) is None
        assert site.addresses.refusal(handshake).refusal == "address_handshakes"
