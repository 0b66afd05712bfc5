"""`limits.http_per_minute`: how many plain requests one address may make, and which ones do not count."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
import trio
from tests.edge.test_address_limits import addresses, refusal, refusals, served
from tests.support.asking import PROXY, ask, behind_a_proxy, plain, websocket
from tests.support.black import Black
from tests.support.gate_kit import open_gate

from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.edge.common_responses import _page_names, _page_version
from reactor_trio.testing import open_server
from reactor_trio.transport import Request, wire_stream


def over_limit(found, peer):
    return refusal(found, Request(method="GET", path="/metrics", peer=peer), "address_requests")


async def statuses(site, target, times, **options):
    return [(await ask(site, plain(target), **options))[0].status for _ in range(times)]


async def test_requests_come_at_once_and_then_at_their_rate(autojump_clock):
    found = addresses(http_per_minute=6)
    assert [over_limit(found, "192.0.2.1:1") for _ in range(6)] == [None] * 6
    refused = over_limit(found, "192.0.2.1:2")
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")
    assert over_limit(found, "192.0.2.2:1") is None
    assert over_limit(found, "127.0.0.1:1") is None
    await trio.sleep(9.99)
    assert over_limit(found, "192.0.2.1:1").headers["retry-after"] == "1"
    await trio.sleep(0.02)
    assert [over_limit(found, "192.0.2.1:1") is None for _ in range(2)] == [True, False]
    handshake = Request(method="GET", path="/ws", peer="192.0.2.1:1")
    assert refusal(found, handshake) is None, "handshakes have a limit of their own"
    endless = addresses(http_per_minute=0)
    assert {over_limit(endless, "192.0.2.1:1") for _ in range(2000)} == {None}


ROUTES = {"/": 20, "/page/main.js": 20, "/pictures/none.png": 20, "/schema": 20, "/metrics": 20, "/nothing": 900}


@pytest.mark.parametrize(("target", "most"), ROUTES.items())
async def test_an_address_has_its_requests_on_every_route_and_no_more(autojump_clock, monkeypatch, target, most):
    limits = LimitSettings() if most == 900 else LimitSettings(http_per_minute=most)
    with behind_a_proxy(monkeypatch):
        async with open_server(Black, proxies=[PROXY], limits=msgspec.to_builtins(limits)) as server:
            site = server._site
            found = await ask(site, *[plain(target)] * (most + 1))
            usual = found[0].status
            assert [one.status for one in found] == [usual] * most + [429]
            assert found[-1].headers["retry-after"] == str(60 // most or 1)
            assert found[-1].headers["connection"] == "close", "what is pipelined behind it is not even read"
            assert await statuses(site, target, 1, address="198.51.100.2") == [usual]
            assert await statuses(site, "/health", 3) + await statuses(site, "/ready", 3) == [200] * 6
            assert (await ask(site, websocket("/ws")))[0].status == 101
            assert await statuses(site, "/schema", 1) == [429]
            await trio.sleep(60 / most + 0.001)
            assert await statuses(site, target, 2) == [usual, 429]
            assert refusals(server.runtime.metrics) == {"address_requests": 3}


async def test_requests_of_every_method_count(autojump_clock, monkeypatch):
    friend = "https://friend.test"
    preflight = plain(
        "/uploads", f"origin: {friend}", "access-control-request-method: POST", "content-length: 0", method="OPTIONS"
    )
    limits = {"http_per_minute": 5}
    with behind_a_proxy(monkeypatch):
        async with open_server(Black, proxies=[PROXY], limits=limits, origins=[friend]) as server:
            asked = [
                plain("/schema"), plain("/schema", method="HEAD"), preflight,
                plain("/v1/sessions/some", method="DELETE"), plain("/uploads", "content-length: 0", method="POST"),
                plain("/schema"), plain("/schema", method="HEAD"), preflight,
                plain("/v1/sessions/some", method="DELETE"), plain("/uploads", "content-length: 0", method="POST"),
            ]  # fmt: skip
            found = []
            for one in asked:
                head_only = one[0].startswith("HEAD")
                found.append((await ask(server._site, one, head_only=head_only))[0])
            assert [one.status for one in found] == [200, 200, 200, 403, 404] + [429] * 5
            allowed = [one.headers.get("access-control-allow-origin") for one in found]
            assert allowed == [None, None, friend, None, None, None, None, friend, None, None], "a page can read it"


HOST = "host: 127.0.0.1"
#: Requests that are refused before their route is known: the status, and whether their headers can be read.
REFUSED_AT_ONCE = {
    "another host": (["GET /schema HTTP/1.1", "host: evil.test"], 421, True),
    "another host, POST": (["POST /uploads HTTP/1.1", "host: evil.test"], 421, True),
    "a query that cannot be read": (["GET /schema?a HTTP/1.1", HOST], 400, True),
    "an expectation": (["GET /schema HTTP/1.1", HOST, "expect: tea"], 417, True),
    "a bare line feed": (["GET /schema HTTP/1.1\nx: y", HOST], 400, True),
    "another version": (["GET / HTTP/2.0", HOST], 400, True),
    "no host": (["GET /schema HTTP/1.1"], 400, False),
    "no HTTP": (["hello"], 400, False),
    "a head that is too large": (["GET /schema HTTP/1.1", HOST, "x: " + "x" * 20_000], 431, False),
}


@pytest.mark.parametrize(("lines", "status", "readable"), REFUSED_AT_ONCE.values(), ids=REFUSED_AT_ONCE)
@pytest.mark.parametrize("proxied", [False, True])
async def test_a_request_that_is_refused_at_once_counts_too(autojump_clock, monkeypatch, lines, status, readable, proxied):
    """Behind a proxy for the client that it names; the proxy itself has no limit."""
    monkeypatch.setattr(wire_stream, "peer_of", lambda _stream: f"{PROXY if proxied else '198.51.100.1'}:80")
    named = readable or not proxied
    async with open_server(Black, proxies=[PROXY], limits={"http_per_minute": 3}) as server:
        found = [(await ask(server._site, lines))[0].status for _ in range(4)]
        assert found == [status] * 3 + [429 if named else status]
        assert refusals(server.runtime.metrics) == ({"address_requests": 1} if named else {})
        assert await statuses(server._site, "/schema", 1) == [429 if named else 200], "they count with the others"
        assert await statuses(server._site, "/health", 1) == [200]


async def test_requests_of_a_gate_count_and_those_for_a_place_are_handshakes(autojump_clock, monkeypatch):
    limits = LimitSettings(http_per_minute=3, handshakes_per_minute=2)
    settings = Settings(proxies=(PROXY,), limits=limits)
    with behind_a_proxy(monkeypatch):
        async with open_gate(settings=settings) as gate:
            assert await statuses(gate.site, "/schema", 2) + await statuses(gate.site, "/metrics", 2) == [200] * 3 + [429]
            assert await statuses(gate.site, "/health", 9) == [200] * 9
            place = plain("/v1/sessions", "content-length: 0", method="POST")
            assert [(await ask(gate.site, place))[0].status for _ in range(3)] == [201, 503, 429], "one place is there"
            assert refusals(gate.metrics) == {"address_requests": 1, "address_handshakes": 1}


async def test_sixteen_people_behind_one_address_load_the_whole_page_at_once(autojump_clock, monkeypatch):
    """All its files, also those that it loads when they are needed, and what it asks about the model."""
    files = [f"/page/{_page_version()}/{name}" for name in sorted(_page_names()) if name != "index.html"]
    load = ["/", "/favicon.ico", *files, "/health", "/schema?format=about"]
    with behind_a_proxy(monkeypatch):
        async with open_server(Black, proxies=[PROXY]) as server:
            found = Counter()
            for _ in range(16):
                found.update(one.status for one in await ask(server._site, *map(plain, load)))
            assert found == {200: 16 * len(load)}


async def test_over_a_socket():
    async with served(proxies=["127.0.0.1"], limits={"http_per_minute": 3}) as server, trio.open_nursery() as nursery:
        async with await trio.open_tcp_stream(server.host, server.port) as stream:
            lines = plain("/metrics", "x-forwarded-for: 198.51.100.1", "", "")
            nursery.start_soon(stream.send_all, "\r\n".join(lines).encode() * 200)
            data = b""
            while piece := await stream.receive_some():
                data += piece
        assert data.count(b"HTTP/1.1 200 OK") >= 3
        assert data.count(b"HTTP/1.1 429 Too Many Requests") == 1, "after that the connection is closed"
