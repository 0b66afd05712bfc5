"""`refusals=bye` at server, gate and standby: the WebSocket says what HTTP would have said, and counts in the limits."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
import trio.testing
from tests.support.black import Black
from tests.support.gate_kit import open_gate
from tests.support.transport_peers import answers, frame, opening, read_all
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, Request, TextMessage

from reactor_trio import issue_ticket
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.protocol.refusals import REFUSALS
from reactor_trio.server.standby import standby_site
from reactor_trio.testing import open_server
from reactor_trio.transport import serve_http, wire_stream

TOKEN, KEY = "control-" + "t" * 16, "k" * 32
AUTH = {"token": TOKEN, "ticket_keys": [KEY]}
PROXY = "10.0.0.1:80"


@asynccontextmanager
async def connected(site, noted=None):
    """The client's end of a connection to `site`, which is over when the block is. `noted` gets statuses of refusals."""

    def refused(peer, address, refusal):
        if noted is not None:
            noted.append(refusal.kind.status)
        return site.rules.refused(peer, address, refusal)

    rules = replace(site.rules, refused=refused)
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_http(ours, site.serve, rules, closing=trio.Event()))
        yield theirs
        await theirs.aclose()


async def ask(site, query, *headers, noted=None, path="/ws"):
    """What a WebSocket client learns: ("http", status, text, retry after, code) or ("bye", the same), and the close code."""
    ws = WSConnection(ConnectionType.CLIENT)
    extra = [tuple(part.encode() for part in header.split(": ")) for header in headers]
    async with connected(site, noted) as stream:
        await stream.send_all(ws.send(Request(host="127.0.0.1", target=f"{path}?{query}".rstrip("?"), extra_headers=extra)))
        data = await stream.receive_some(100_000)
        if data.startswith(b"HTTP/1.1 101"):
            await stream.send_all(frame(8, b""))  # as a client answers a close frame
        data += await read_all(stream)
    ws.receive_data(data)
    first, *rest = ws.events()
    if isinstance(first, RejectConnection):
        (answer,) = answers(data)
        after = answer.headers.get("retry-after")
        text, code = answer.body.decode().strip(), answer.headers.get("reactor-refusal")
        return "http", answer.status, text, None if after is None else int(after), code
    assert isinstance(first, AcceptConnection)
    text, close = rest
    assert isinstance(text, TextMessage)
    message = json.loads(text.data)
    assert message.keys() == {"type", "data"}, "not numbered"
    assert (message["type"], message["data"].pop("reason")) == ("reactor.bye", "refused")
    assert isinstance(close, CloseConnection)
    assert close.code == REFUSALS[message["data"]["code"]].close_code
    return "bye", *(message["data"][key] for key in ("status", "message", "retry_after", "code"))


async def same_inside(site, query, *headers, status, path="/ws"):
    """Check that `query` is refused with `status`, and that the refusal inside the WebSocket says what HTTP says."""
    noted = []
    outside = await ask(site, query, *headers, noted=noted, path=path)
    inside = await ask(site, f"refusals=bye&{query}".rstrip("&"), *headers, noted=noted, path=path)
    assert outside[:2] == ("http", status)
    assert REFUSALS[outside[-1]].status == status
    assert inside == ("bye", *outside[1:])
    assert noted == [status, status], "both are counted, and logged, alike"


# ---- every refusal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("video=hevc", 400),
        ("audio=mp3", 400),
        ("role=king", 400),
        ("after=x", 400),
        ("video.depth=jpeg", 400),
        ("model=other", 404),
        ("role=viewer", 503),  # there is no session to watch
        ("role=viewer&token=wrong", 401),
    ],
)
async def test_a_server_without_authentication(autojump_clock, query, status):
    async with open_server(Black) as server:
        await same_inside(server._site, query, status=status)


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 401), ("token=wrong", 401), (f"token={TOKEN}&model=other", 404), ("role=viewer&token=wrong", 401)],
)
async def test_a_server_with_authentication(autojump_clock, query, status):
    async with open_server(Black, auth=AUTH, viewers="none") as server:
        await same_inside(server._site, query, status=status)
        assert server.runtime.metrics.exposition().decode().count("token") == 0


async def test_a_credential_that_does_not_allow_it(autojump_clock):
    async with open_server(Black, auth=AUTH) as server:
        ticket = issue_ticket(KEY, role="viewer")
        await same_inside(server._site, f"token={ticket}", status=403)


async def test_a_used_ticket_and_a_refused_one(autojump_clock):
    async with open_server(Black, auth=AUTH, queue=0) as server:
        ticket = issue_ticket(KEY, role="control")
        async with server.connect(token=TOKEN):
            await same_inside(server._site, f"token={ticket}", status=503)
        async with server.connect(token=ticket):
            await same_inside(server._site, f"token={ticket}", status=401)


async def test_a_full_server_and_one_that_goes_down(autojump_clock):
    async with open_server(Black, queue=0, drain_notice=5) as server:
        async with server.connect():
            await same_inside(server._site, "", status=503)
            server.runtime.closing.set()
            await same_inside(server._site, "", status=503)


async def test_a_page_of_a_listed_origin_learns_it_and_one_of_another_does_not(autojump_clock):
    async with open_server(Black, origins=["https://friend.test"]) as server:
        await same_inside(server._site, "model=other", "origin: https://friend.test", status=404)
        found = await ask(server._site, "model=other&refusals=bye", "origin: https://evil.test")
        assert found[:2] == ("http", 403)


@pytest.mark.parametrize(
    ("origin", "logged"),
    [
        ("https://evil.test", "https://evil.test"),
        ("https://\x9b2J.test", r"https://\xc2\x9b2J.test"),
        ("http://\x1b]0;owned\x07\x7f", r"http://\x1b]0;owned\x07\x7f"),
        ("https://" + "x" * 1000, "https://" + "x" * 182),
    ],
)
async def test_the_log_names_the_refused_origin_short_and_without_control_characters(autojump_clock, caplog, origin, logged):
    caplog.set_level("INFO", "reactor_trio.edge")
    async with open_server(Black) as server:
        await ask(server._site, "", f"origin: {origin}")
    [line] = [line for line in caplog.messages if "was refused" in line]
    who = line.partition(" was refused, 403 Forbidden: a page may connect if its origin is the server's own")[0]
    assert who.partition(", ")[2] == f"a page of {logged},"


async def test_a_standby(autojump_clock):
    site = standby_site(Settings(), "sky", "line 7 is wrong", "127.0.0.1")
    await same_inside(site, "", status=503)
    assert (await ask(site, "refusals=bye"))[2] == "no model is served: line 7 is wrong"


# ---- at a gate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status"), [("follow=1&model=other", 404), ("model=other", 404), ("role=viewer", 404), ("role=king", 400)]
)
@pytest.mark.parametrize("path", ["/ws", "/v1/queue"])
async def test_a_gate(autojump_clock, query, status, path):
    async with open_gate() as gate:
        await same_inside(gate.site, query, status=status, path=path)


async def test_a_gate_with_authentication_and_one_that_goes_down(autojump_clock):
    async with open_gate(settings=Settings(auth=AuthSettings(token=TOKEN))) as gate:
        await same_inside(gate.site, "follow=1", status=401)
        gate.draining.set()
        await same_inside(gate.site, f"follow=1&token={TOKEN}", status=503)


async def test_a_gate_still_redirects_a_client_that_cannot_follow(autojump_clock):
    async with open_gate() as gate:
        assert (await ask(gate.site, "refusals=bye"))[:2] == ("http", 307)


async def said_and_closed(caller):
    kind, data = await caller.hear()
    return kind, data, await caller.closed()


async def test_a_full_queue_is_told_inside_because_the_gate_learns_it_there(autojump_clock):
    async with open_gate(most=0) as gate:
        full = {"reason": "refused", "status": 503, "message": "the queue is full", "retry_after": 1, "code": "full"}
        assert await said_and_closed(await gate.call("/ws?follow=1&refusals=bye")) == ("reactor.bye", full, 1013)
        assert await (await gate.call("/ws?follow=1")).closed() == 1013, "as ever"


async def test_a_ticket_that_two_sockets_show_at_once(autojump_clock):
    auth = AuthSettings(ticket_keys=(KEY,))
    async with open_gate(settings=Settings(auth=auth)) as gate:
        once = issue_ticket(KEY, role="control")
        first = await gate.call(f"/ws?follow=1&refusals=bye&token={once}")
        with gate.site.access.holding(gate.site.access.check(issue_ticket(KEY, role="control"))):
            await first.until("reactor.admitted")
        other = issue_ticket(KEY, role="control")
        with gate.site.access.holding(gate.site.access.check(other)):
            kind, data, code = await said_and_closed(await gate.call(f"/ws?follow=1&refusals=bye&token={other}"))
        assert (kind, data["status"], code) == ("reactor.bye", 401, 1008)


# ---- the limits by address --------------------------------------------------------------------------------------------


def forwarded(number):
    return f"x-forwarded-for: 198.51.100.{number}"


@asynccontextmanager
async def behind_a_proxy(monkeypatch, **limits):
    """The site of a server whose clients all come through a proxy that it trusts."""
    monkeypatch.setattr(wire_stream, "peer_of", lambda _stream: PROXY)
    async with open_server(Black, proxies=["10.0.0.1"], limits=limits) as server:
        yield server._site


async def test_handshakes_of_refused_sockets_count_and_their_limit_is_told_inside(autojump_clock, monkeypatch):
    async with behind_a_proxy(monkeypatch, handshakes_per_minute=6) as site:
        query = "model=other&refusals=bye"
        statuses = [(await ask(site, query, forwarded(1)))[1] for _ in range(8)]
        assert statuses == [404] * 6 + [429] * 2
        assert (await ask(site, query, forwarded(2)))[1] == 404
        assert await ask(site, query, forwarded(1)) == (
                "bye", 429, "this address asks too often; wait a little", 10, "address_handshakes"
            )  # fmt: skip


async def test_refused_sockets_count_as_connections_of_their_address_until_they_are_closed(autojump_clock, monkeypatch):
    """The flood: sockets that are refused and not closed by their client. Above the limit it gets no more WebSockets."""
    async with behind_a_proxy(monkeypatch, connections_per_address=2, handshakes_per_minute=0) as site:
        heads = []

        async def refused(number, task_status=trio.TASK_STATUS_IGNORED):
            async with connected(site) as stream:
                await stream.send_all(opening(forwarded(number), path="/ws?model=other&refusals=bye", host="127.0.0.1"))
                data = await stream.receive_some(100_000)
                heads.append(data.split(b" ")[1])
                task_status.started()
                with trio.move_on_after(10):
                    while await stream.receive_some():
                        pass
                    await trio.sleep_forever()  # its own side stays open

        async with trio.open_nursery() as nursery:
            for number in (1, 1, 1, 2):
                await nursery.start(refused, number)
            assert heads == [b"101", b"101", b"429", b"101"]
            assert sorted(site.addresses._behind.values()) == [1, 2]
            found = await ask(site, "refusals=bye", forwarded(1))
            words = "this address has all the connections that it may have"
            assert found == ("http", 429, words, 1, "address_connections"), "also a good one"
            await trio.sleep(1.01)
            assert not site.addresses._behind, "after a second the server has closed them"
            await nursery.start(refused, 1)
            assert heads[-1] == b"101"


async def test_a_flood_of_refused_sockets_is_a_few_lines_in_the_log(autojump_clock, caplog):
    caplog.set_level("INFO", "reactor_trio.edge")
    async with open_server(Black) as server:
        for _ in range(50):
            await ask(server._site, "model=other&refusals=bye")
        refused = [line for line in caplog.messages if "was refused" in line]
        assert len(refused) == 1
        assert 'reactor_requests_refused_total{status="404"} 50.0' in server.runtime.metrics.exposition().decode()


