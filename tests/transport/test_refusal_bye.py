"""Refusals inside the WebSocket: what such a client gets, what stays HTTP, and that they cost what refusals by HTTP cost."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from tests.support.transport_peers import TinySite, answers, frame, opening, read_all, serving
from trio.testing import memory_stream_pair
from websockets.utils import accept_key
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request, TextMessage

from reactor_trio.protocol.refusals import REFUSALS
from reactor_trio.transport import Limits, Refusal, serve_http
from reactor_trio.transport.refusal_bye import accepted_and_refused
from reactor_trio.transport.upgrade import Handshake


async def refused(path, *, subprotocols=()):
    """What a client that asks for `path` sees: the events of its WebSocket library."""
    ws = WSConnection(ConnectionType.CLIENT)
    async with serving() as stream:
        await stream.send_all(ws.send(Request(host="localhost", target=path, subprotocols=list(subprotocols))))
        ws.receive_data(await read_all(stream))
    return list(ws.events())


async def test_a_refusal_is_a_bye_and_a_close_in_an_accepted_websocket(autojump_clock):
    accepted, bye, close = await refused("/ws?full=1&refusals=bye")
    assert isinstance(accepted, AcceptConnection)
    assert accepted.subprotocol is None
    assert isinstance(bye, TextMessage)
    assert json.loads(bye.data) == {
        "type": "reactor.bye",
        "data": {"reason": "refused", "status": 503, "message": "no room", "retry_after": 5, "code": "full"},
    }
    assert isinstance(close, CloseConnection)
    assert (close.code, close.reason) == (1013, "refused")


async def test_the_subprotocol_is_accepted_as_a_browser_requires_it(autojump_clock):
    accepted, *_ = await refused("/ws?full=1&refusals=bye", subprotocols=["reactor.v1"])
    assert accepted.subprotocol == "reactor.v1"


async def test_the_answer_has_the_standard_headers(autojump_clock):
    async with serving() as stream:
        await stream.send_all(opening(path="/ws?full=1&refusals=bye"))
        head = (await read_all(stream)).partition(b"\r\n\r\n")[0]
    (answer,) = answers(head + b"\r\n\r\n")
    assert answer.status == 101
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["sec-websocket-accept"] == accept_key("dGhlIHNhbXBsZSBub25jZQ==")


async def test_a_fault_of_the_server_is_told_inside_too(autojump_clock, caplog):
    caplog.set_level(logging.CRITICAL, "reactor_trio.transport")
    _accepted, bye, close = await refused("/ws?crash=1&refusals=bye")
    assert json.loads(bye.data)["data"] == {
        "reason": "refused", "status": 500, "message": "internal error", "retry_after": None, "code": "internal",
    }  # fmt: skip
    assert close.code == 1011


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (opening(path="/ws?full=1"), 503),
        (opening(path="/ws?full=1&refusals=1"), 503),
        (opening(path="/ws?elsewhere=1&refusals=bye"), 307),
        (opening(path="/ws?full=1&refusals=bye", host="evil.test"), 421),
        (opening(path="/other?refusals=bye"), 404),
        (opening("Origin: http://evil.test", path="/ws?full=1&refusals=bye"), 403),
        (opening(path="/ws?full=1&refusals=bye", drop="Sec-WebSocket-Key"), 400),
        (opening("Sec-WebSocket-Protocol: chat", path="/ws?full=1&refusals=bye"), 400),
        (opening(path="/ws?full=1&refusals=bye&crowded=1"), 503),
    ],
    ids=["not asked", "another value", "redirect", "host", "path", "origin", "no key", "subprotocol", "too many sockets"],
)
async def test_what_stays_http(autojump_clock, raw, status):
    async with serving() as stream:
        await stream.send_all(raw)
        found = answers(await read_all(stream))
    assert [answer.status for answer in found] == [status]


async def test_the_connection_ends_after_the_clients_close_frame(autojump_clock):
    """A page in Firefox gets nothing of a WebSocket whose connection ends with its first bytes."""
    async with serving() as stream:
        await stream.send_all(opening(path="/ws?full=1&refusals=bye"))
        assert await stream.receive_some(100_000)
        with trio.move_on_after(0.9) as patience:
            await stream.receive_some()
        assert patience.cancelled_caught, "the connection is open"
        await stream.send_all(frame(8, b""))
        asked = trio.current_time()
        assert await stream.receive_some() == b""
        assert trio.current_time() == asked


async def test_an_admitted_client_sees_no_difference(autojump_clock):
    site = TinySite(lambda messages: messages.send_text("hello"))
    async with serving(site) as stream:
        await stream.send_all(opening(path="/ws?refusals=bye"))
        assert b"hello" in await read_all(stream)
    assert site.conversations == 1


# ---- what it costs ----------------------------------------------------------------------------------------------------


async def time_served(path, chat=None, *, limits=None):
    """Virtual seconds for which the server keeps the connection of a refused client that never ends it, and its statuses."""
    site, seen, noted = TinySite(limits=limits), [], []
    ours, theirs = memory_stream_pair()

    async def client():
        await theirs.send_all(opening(path=path))
        await theirs.receive_some(100_000)
        seen.append(site.refused_sockets)
        with suppress(trio.BrokenResourceError):
            while chat is not None:
                await trio.sleep(0.01)
                await theirs.send_all(chat)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        began = trio.current_time()

        def note(_peer, _address, refusal):
            noted.append(refusal.kind.status)
            return refusal

        await serve_http(ours, site.serve, replace(site.rules, refused=note), closing=trio.Event())
        nursery.cancel_scope.cancel()
    assert site.refused_sockets == 0
    return trio.current_time() - began, seen, noted


async def test_a_client_that_stays_is_gone_as_soon_as_after_a_refusal_by_http(autojump_clock):
    assert await time_served("/ws?full=1") == (1.0, [0], [503])
    assert await time_served("/ws?full=1&refusals=bye") == (1.0, [1], [503])


@pytest.mark.parametrize("chat", [frame(1, b"x"), frame(2, bytes(65536), fin=False), frame(9, b"ping"), b"\xff" * 100])
async def test_what_a_refused_client_sends_is_neither_kept_nor_answered(autojump_clock, chat):
    assert (await time_served("/ws?full=1&refusals=bye", chat))[0] == 1.0


async def test_heartbeats_and_silence_do_not_count_for_a_refused_client(autojump_clock):
    limits = Limits(ping_interval=0.1, silence=0.2)
    assert (await time_served("/ws?full=1&refusals=bye", limits=limits))[0] == 1.0


# ---- the codes --------------------------------------------------------------------------------------------------------


def test_close_codes_say_whether_it_is_worth_trying_again():
    codes = {code: REFUSALS[code].close_code for code in (
        "bad_request", "token_wrong", "not_allowed", "wrong_model", "too_many_files", "address_requests", "request_timeout",
        "internal", "full",
    )}  # fmt: skip
    assert codes == {
        "bad_request": 1008, "token_wrong": 1008, "not_allowed": 1008, "wrong_model": 1008, "too_many_files": 1008,
        "address_requests": 1013, "request_timeout": 1013, "internal": 1011, "full": 1013,
    }  # fmt: skip


def test_a_long_text_is_cut():
    sent = accepted_and_refused(Handshake("dGhlIHNhbXBsZSBub25jZQ==", None), Refusal("not_found", "ä" * 5000))
    (bye,) = [line for line in sent.partition(b"\r\n\r\n")[2].split(b"\x88") if b"reactor.bye" in line]
    assert len(json.loads(bye[bye.index(b"{") :])["data"]["message"]) == 1000
