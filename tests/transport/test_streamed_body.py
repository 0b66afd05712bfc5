"""Bodies that a site streams: whole, answered early, slow, cut short; and whether the connection is kept."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
from tests.support.transport_peers import Answer, TinySite, answers, read_all, serving

from reactor_trio.transport import Limits, serve_http

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
OPTIONS = {"methods": ("GET", "HEAD", "POST"), "limits": Limits(body_time=100)}
CLOSED, KEPT = 0, 30


def post(path: str, *lines: str, host: str = "localhost") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def sized(path: str, size: int, *lines: str) -> bytes:
    return post(path, f"Content-Length: {size}", *lines) + bytes(size)


async def probe(raw: bytes, site: TinySite | None = None) -> tuple[list[Answer], float]:
    async with serving(site, **OPTIONS) as stream:
        await stream.send_all(raw)
        data = await read_all(stream)
        return answers(data), trio.current_time()


ASKING = ("Origin: https://friend.test", "Access-Control-Request-Method: POST")
PREFLIGHT = post("/stream", *ASKING).replace(b"POST", b"OPTIONS", 1)
PROBES = {
    "a_body": (sized("/stream", 1_000_000), [(200, b"1000000\n")], KEPT),
    "no_body": (post("/stream"), [(200, b"0\n")], KEPT),
    "then_another_request": (sized("/stream", 200_000) + GET, [(200, b"200000\n"), (200, None)], KEPT),
    "then_many": (sized("/stream", 70_000) + GET * 2_000, [(200, b"70000\n")] + [(200, None)] * 2_000, KEPT),
    "then_a_head_that_is_too_long": (sized("/stream", 50_000) + GET[:-2] + b"X: " + b"x" * 20_000 + b"\r\n\r\n",
                                     [(200, b"50000\n"), (431, None)], CLOSED),
    "then_garbage": (sized("/stream", 3) + b"more than was said\r\n\r\n", [(200, b"3\n"), (400, None)], CLOSED),
    "chunked": (post("/stream", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + GET,
                [(200, b"5\n"), (200, None)], KEPT),
    "chunked_badly": (post("/stream", "Transfer-Encoding: chunked") + b"zz\r\nabc\r\n", [(400, None)], CLOSED),
    "chunked_with_a_length": (post("/stream", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + GET,
                              [(400, None)], CLOSED),
    "chunked_with_a_loose_trailer": (post("/stream", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\n" + GET,
                                     [(400, None)], CLOSED),
    "expecting_something_else": (sized("/stream", 3, "Expect: x") + GET, [(417, None)], CLOSED),
    "two_lengths": (post("/stream", "Content-Length: 3", "Content-Length: 4") + b"abcd", [(400, None)], CLOSED),
    "length_not_a_number": (post("/stream", "Content-Length: three") + b"abc", [(400, None)], CLOSED),
    "negative_length": (post("/stream", "Content-Length: -1") + b"abc", [(400, None)], CLOSED),
    "not_read_to_its_end": (sized("/first", 100_000) + GET, [(200, None)], CLOSED),
    "refused_before_its_body": (sized("/never", 100_000) + GET, [(413, b"too much\n")], CLOSED),
    "a_bug_before_its_body": (sized("/crash", 10), [(500, b"internal error\n")], CLOSED),
    "a_bug_in_the_middle": (sized("/break", 10), [(500, b"internal error\n")], CLOSED),
    "same_origin": (sized("/stream", 3, "Origin: http://localhost"), [(200, b"3\n")], KEPT),
    "another_origin": (sized("/stream", 3, "Origin: http://evil.test"), [(403, None)], CLOSED),
    "two_origins": (sized("/stream", 3, *["Origin: http://localhost"] * 2), [(403, None)], CLOSED),
    "a_small_body_of_another_origin": (sized("/upload", 3, "Origin: http://evil.test"), [(403, None)], CLOSED),
    "preflight": (PREFLIGHT + GET, [(200, None), (200, None)], KEPT),
    "preflight_with_a_body": (PREFLIGHT[:-2] + b"Content-Length: 65537\r\n\r\n", [(413, None)], CLOSED),
    "preflight_of_what_is_not_shared": (PREFLIGHT.replace(b"/stream", b"/upload"), [(405, None)], CLOSED),
    "preflight_of_a_stranger": (PREFLIGHT.replace(b"friend", b"evil"), [(405, None)], CLOSED),
    "another_host": (post("/stream", "Content-Length: 3", host="evil.test") + b"abc", [(421, None)], CLOSED),
    "expecting": (post("/stream", "Content-Length: 3", "Expect: 100-continue"), [(100, None), (408, None)], 15),
    "expecting_in_vain": (post("/never", "Content-Length: 3", "Expect: 100-continue"), [(413, None)], CLOSED),
    "upgrading": (sized("/stream", 3, "Connection: Upgrade", "Upgrade: websocket"), [(200, b"3\n")], KEPT),
    "silent": (post("/stream", "Content-Length: 3") + b"ab", [(408, b"no byte of the body came for 15 s\n")], 15),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBES)
async def test_probe(name, autojump_clock):
    raw, expected, end = PROBES[name]
    found, ended = await probe(raw)
    assert [answer.status for answer in found] == [status for status, _ in expected]
    for answer, (_, body) in zip(found, expected, strict=True):
        assert body is None or answer.body == body
    assert ended == end
    if found[-1].status != 100 and end != KEPT:
        assert found[-1].headers["connection"] == "close"


@pytest.mark.parametrize("name", ["then_another_request", "chunked", "then_garbage", "expecting_in_vain"])
async def test_probe_in_pieces_of_one_byte(name, autojump_clock):
    raw, expected, _ = PROBES[name]
    raw = raw.replace(bytes(200_000), bytes(200)).replace(b": 200000", b": 200")
    async with serving(**OPTIONS) as stream:
        for byte in raw:
            await stream.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert [answer.status for answer in answers(await read_all(stream))] == [status for status, _ in expected]


async def test_cors_headers_belong_to_one_request_only(autojump_clock):
    friend, shared = "Origin: https://friend.test", "access-control-allow-origin"
    raw = sized("/stream", 3, friend) + GET + PREFLIGHT + sized("/stream", 3) + sized("/never", 3, friend)
    found, _ = await probe(raw)
    told = [(answer.status, answer.headers.get(shared)) for answer in found]
    yes = "https://friend.test"
    assert told == [(200, yes), (200, None), (200, yes), (200, None), (413, yes)]
    found, _ = await probe(sized("/stream", 3, friend) + b"no request\r\n\r\n")
    assert [(answer.status, answer.headers.get(shared)) for answer in found] == [(200, yes), (400, None)]


async def test_pieces_are_small_however_large_the_body(autojump_clock):
    site = TinySite()
    await probe(sized("/stream", 1_000_000), site)
    assert sum(site.pieces) == 1_000_000
    assert max(site.pieces) <= 64 * 1024
    assert 0 not in site.pieces


async def test_a_body_that_trickles_is_cut_at_its_time(autojump_clock):
    async with serving(**OPTIONS) as stream:
        await stream.send_all(post("/stream", "Content-Length: 1000"))
        for _ in range(10):
            await stream.send_all(b"x")
            await trio.sleep(10)
        (answer,) = answers(await read_all(stream))
        assert (answer.status, answer.body) == (408, b"the body was not complete after 100 s\n")
        assert trio.current_time() == 100


async def test_a_body_may_take_longer_than_a_head(autojump_clock):
    async with serving(**OPTIONS) as stream:
        await stream.send_all(post("/stream", "Content-Length: 5"))
        for _ in range(5):
            await trio.sleep(14)
            await stream.send_all(b"x")
        assert answers(await read_all(stream))[0].body == b"5\n"


async def test_a_client_that_stops_sending_within_a_body_gets_400(autojump_clock):
    """The client ends its side and reads on. It gets 400 at once."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    site = TinySite(**OPTIONS)
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, serve=site.serve, rules=site.rules, closing=trio.Event())
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        async with await trio.testing.open_stream_to_socket_listener(listeners[0]) as stream:
            await stream.send_all(post("/stream", "Content-Length: 100") + b"abc")
            await stream.send_eof()
            (answer,) = answers(await read_all(stream))
        assert answer.status == 400
        assert site.pieces == []
        nursery.cancel_scope.cancel()


async def test_100_continue_is_sent_when_the_site_asks_for_the_first_piece(autojump_clock):
    async with serving(**OPTIONS) as stream:
        await stream.send_all(post("/stream", "Content-Length: 3", "Expect: 100-continue"))
        assert bytes(await stream.receive_some()) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"abc" + GET)
        first, second = answers(await read_all(stream))
        assert (first.body, second.status) == (b"3\n", 200)


async def test_a_client_that_leaves_in_the_middle_is_no_error(autojump_clock, caplog):
    with caplog.at_level(logging.WARNING):
        async with serving(**OPTIONS) as stream:
            await stream.send_all(post("/stream", "Content-Length: 100") + b"abc")
            await stream.aclose()
    assert not caplog.records


async def test_a_refused_client_has_five_seconds_to_finish_sending(autojump_clock):
    async with serving(**OPTIONS) as stream:
        await stream.send_all(post("/never", "Content-Length: 100000"))
        assert answers(bytes(await stream.receive_some()))[0].status == 413
        await trio.sleep(4.9)
        await stream.send_all(bytes(50_000))
        await trio.sleep(0.2)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")
