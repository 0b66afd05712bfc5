"""HTTP requests of any kind: a table of probes over a memory stream in virtual time, then single properties."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
from tests.support.transport_peers import PAGE, Answer, TinySite, answers, opening, read_all, serving

from reactor_trio.transport import Limits, PortRules, serve_http

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSED, KEPT = 0, 30  # virtual second at which the client sees the end: refused at once, or idle for `Limits.idle`


def get(path: str = "/", *lines: str, host: str = "localhost", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


PROBES = {
    "get": (GET, [200], KEPT),
    "head": (get(method="HEAD"), [200], KEPT),
    "unknown_path": (get("/nothing"), [404], KEPT),
    "query": (get("/?a=1&b=%C3%A4"), [200], KEPT),
    "query_not_utf8": (get("/?a=%FF"), [400], CLOSED),
    "query_without_value": (get("/?a"), [400], CLOSED),
    "query_with_too_many_fields": (get("/?" + "&".join(["a=1"] * 65)), [400], CLOSED),
    "post": (get("/", "Content-Length: 3", method="POST") + b"abc", [405], CLOSED),
    "connect": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", [400], CLOSED),
    "options_asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", [400], CLOSED),
    "body_ignored": (get("/", "Content-Length: 3") + b"abc" + GET, [200, 200], KEPT),
    "chunked_body": (get("/", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n" + GET, [200, 200], KEPT),
    "body_too_long": (get("/", "Content-Length: 65537") + bytes(65537), [413], CLOSED),
    "chunked_too_long": (get("/", "Transfer-Encoding: chunked") + b"10001\r\n" + bytes(65537), [413], CLOSED),
    "expect": (get("/", "Content-Length: 3", "Expect: 100-continue"), [100, 408], 10),
    "expect_too_long": (get("/", "Content-Length: 65537", "Expect: 100-continue"), [413], CLOSED),
    "expect_post": (get("/", "Content-Length: 3", "Expect: 100-continue", method="POST"), [405], CLOSED),
    "length_and_chunked": (
        get("/", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + GET, [400], CLOSED,
    ),
    "chunked_in_http_1_0": (
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET, [400], CLOSED,
    ),
    "length_and_chunked_head": (
        get("/", "Transfer-Encoding: chunked", "Content-Length: 0", method="HEAD") + b"0\r\n\r\n" + GET, [400], CLOSED,
    ),
    "bare_line_feeds": (GET.replace(b"\r", b"") + GET, [400], CLOSED),
    "bare_line_feed_in_a_head": (get("/", "X: a").replace(b"a\r\n", b"a\n") + GET, [400], CLOSED),
    "bare_line_feed_at_the_end_of_a_head": (GET[:-2] + b"\n" + GET, [400], CLOSED),
    "bare_line_feeds_in_head_only": (get(method="HEAD").replace(b"\r", b""), [400], CLOSED),
    "bare_carriage_return": (get("/", "X: a\rY: b") + GET, [400], CLOSED),
    "space_before_a_colon": (get("/", "Transfer-Encoding : chunked") + b"0\r\n\r\n" + GET, [400], CLOSED),
    "folded_line": (get("/", "X: a", " b") + GET, [400], CLOSED),
    "folded_line_with_a_tab": (get("/", "Transfer-Encoding:", "\tchunked") + b"0\r\n\r\n" + GET, [400], CLOSED),
    "trailer": (
        get("/", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\nX: a\r\n\r\n" + GET, [200, 200], KEPT,
    ),
    "bare_line_feed_in_a_trailer": (
        get("/", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\nX: a\n\r\n" + GET, [400], CLOSED,
    ),
    "bare_line_feed_for_a_trailer": (get("/", "Transfer-Encoding: chunked") + b"0\r\n\n" + GET, [400], CLOSED),
    "folded_line_in_a_trailer": (
        get("/", "Transfer-Encoding: chunked") + b"0\r\nX: a\r\n b\r\n\r\n" + GET, [400], CLOSED,
    ),
    "line_feeds_in_a_body": (get("/", "Content-Length: 5") + b"\n a\n\n" + GET, [200, 200], KEPT),
    "line_feeds_in_a_chunk": (
        get("/", "Transfer-Encoding: chunked") + b"5\r\n\n a\n\n\r\n0\r\n\r\n" + GET, [200, 200], KEPT,
    ),
    "expect_something_else": (get("/", "Content-Length: 3", "Expect: 200-ok") + b"abc" + GET, [417], CLOSED),
    "expect_something_more": (get("/", "Expect: 100-Continue, a=b") + GET, [417], CLOSED),
    "expect_without_a_body": (get("/", "Expect: 100-continue") + GET, [200, 200], KEPT),
    "pipelined": (GET + get("/nothing") + GET, [200, 404, 200], KEPT),
    "connection_close": (get("/", "Connection: close"), [200], CLOSED),
    "http_1_0": (b"GET / HTTP/1.0\r\n\r\n", [200], CLOSED),
    "absolute_target": (get("http://localhost:8080/?a=1", host="elsewhere.test"), [200], KEPT),
    "absolute_target_elsewhere": (get("http://elsewhere.test/"), [421], CLOSED),
    "garbage": (b"\x00\x01\x02 garbage\r\n\r\n", [400], CLOSED),
    "words": (b"hello\r\n\r\n", [400], CLOSED),
    "tls_hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), [400], CLOSED),
    "http_2_0": (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", [400], CLOSED),
    "h2_preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400], CLOSED),
    "h2c_upgrade": (get("/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"), [200], KEPT),
    "header_of_100_kB": (get("/", "X: " + "x" * 100_000), [431], CLOSED),
    "no_host": (b"GET / HTTP/1.1\r\n\r\n", [400], CLOSED),
    "empty_host": (get(host=""), [400], CLOSED),
    "two_hosts": (get("/", "Host: localhost"), [400], CLOSED),
    "nonsense_host": (get(host="local host"), [400], CLOSED),
    "wrong_host": (get(host="evil.test"), [421], CLOSED),
    "wrong_host_before_method": (get(host="evil.test", method="POST"), [421], CLOSED),
    "host_in_capitals_with_port": (get(host="LOCALHOST:8080"), [200], KEPT),
    "ipv6_host": (get(host="[::1]:8080"), [200], KEPT),
    "nothing": (b"", [], 10),
    "half_head": (b"GET / HTTP/1.1\r\nHost: loc", [408], 10),
    "half_body": (get("/", "Content-Length: 3") + b"a", [408], 10),
    "half_second_head": (GET + b"GET / HT", [200, 408], 10),
    "ws_without_upgrade": (get("/ws"), [426], CLOSED),
    "ws_elsewhere": (opening(path="/other"), [404], CLOSED),
    "ws_on_head": (opening().replace(b"GET", b"HEAD"), [400], CLOSED),
    "ws_on_post": (opening().replace(b"GET", b"POST"), [405], CLOSED),
    "ws_on_http_1_0": (opening().replace(b"HTTP/1.1", b"HTTP/1.0"), [400], CLOSED),
    "ws_no_connection": (opening(drop="Connection"), [400], CLOSED),
    "ws_no_key": (opening(drop="Sec-WebSocket-Key"), [400], CLOSED),
    "ws_short_key": (opening("Sec-WebSocket-Key: YWJj", drop="Sec-WebSocket-Key"), [400], CLOSED),
    "ws_key_not_base64": (opening("Sec-WebSocket-Key: " + "!" * 24, drop="Sec-WebSocket-Key"), [400], CLOSED),
    "ws_two_keys": (opening("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), [400], CLOSED),
    "ws_no_version": (opening(drop="Sec-WebSocket-Version"), [426], CLOSED),
    "ws_version_8": (opening("Sec-WebSocket-Version: 8", drop="Sec-WebSocket-Version"), [426], CLOSED),
    "ws_wrong_host": (opening(host="evil.test"), [421], CLOSED),
    "ws_wrong_origin": (opening("Origin: http://evil.test"), [403], CLOSED),
    "ws_null_origin": (opening("Origin: null"), [403], CLOSED),
    "ws_two_origins": (opening("Origin: http://localhost", "Origin: http://localhost"), [403], CLOSED),
    "ws_unknown_subprotocol": (opening("Sec-WebSocket-Protocol: chat"), [400], CLOSED),
    "ws_refused": (opening(path="/ws?full=1"), [503], CLOSED),
    "ws_refused_then_more": (opening(path="/ws?full=1") + GET, [503], CLOSED),
    "ws_bad_query": (opening(path="/ws?full"), [400], CLOSED),
}


async def probe(raw: bytes, site: TinySite | None = None, **options: object) -> tuple[list[Answer], float]:
    began = trio.current_time()
    async with serving(site, **options) as stream:  # type: ignore[arg-type]
        await stream.send_all(raw)
        data = await read_all(stream)
        ended = trio.current_time() - began
    return answers(data, head_only=raw.startswith(b"HEAD")), ended


@pytest.mark.parametrize("name", PROBES)
async def test_probe(name, autojump_clock):
    raw, statuses, end = PROBES[name]
    found, ended = await probe(raw)
    assert [answer.status for answer in found] == statuses
    assert ended == end
    for answer in found:
        if answer.status == 100:
            continue
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-length" in answer.headers
    if end == CLOSED:
        assert found[-1].headers["connection"].endswith("close")


@pytest.mark.parametrize("name", ["get", "pipelined", "chunked_body", "half_head", "garbage", "ws_wrong_origin",
                                  "bare_line_feeds", "folded_line", "trailer", "bare_line_feed_for_a_trailer",
                                  "folded_line_in_a_trailer", "line_feeds_in_a_chunk", "length_and_chunked"])
async def test_probe_in_pieces_of_one_byte(name, autojump_clock):
    raw, statuses, end = PROBES[name]
    async with serving() as stream:
        for byte in raw:
            await stream.send_all(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        found = answers(await read_all(stream))
        assert [answer.status for answer in found] == statuses
        assert trio.current_time() == end


async def test_a_chunk_may_be_cut_within_its_line_end(autojump_clock):
    async with serving() as stream:
        await stream.send_all(get("/", "Transfer-Encoding: chunked") + b"1\r\na\r")
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(b"\n0\r\n\r\n" + GET)
        found = answers(await read_all(stream))
        assert [answer.status for answer in found] == [200, 200]


async def test_get_and_head_differ_only_in_the_body(autojump_clock):
    (got,), _ = await probe(GET)
    (head,), _ = await probe(get(method="HEAD"))
    assert got.body == PAGE
    assert head.body == b""
    assert head.headers == got.headers
    assert got.headers["content-length"] == str(len(PAGE))
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    assert got.headers["content-security-policy"] == "default-src 'self'"


async def test_the_site_gets_the_request(autojump_clock):
    site = TinySite()
    await probe(get("http://LocalHost:8080/a%20b?x=1&x=2&y=&z=%26", "Accept: a", "ACCEPT: b, c"), site)
    (request,) = site.requests
    assert (request.method, request.path, request.host, request.authority) == (
        "GET", "/a%20b", "localhost", "localhost:8080",
    )  # fmt: skip
    assert request.query == {"x": "1", "y": "", "z": "&"}
    assert request.header("accept") == "a"
    assert request.header_values("accept") == ["a", "b, c"]
    assert request.tokens("accept") == ["a", "b", "c"]
    assert request.header("missing") is None
    assert request.peer == "memory"


async def test_a_site_may_take_other_methods(autojump_clock):
    methods = ("GET", "HEAD", "POST")
    (answer,), _ = await probe(get("/upload", "Content-Length: 3", method="POST") + b"abc", methods=methods)
    assert (answer.status, answer.body) == (200, b"POST 3\n")
    (answer,), _ = await probe(get(method="PUT"), methods=methods)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_the_body_of_an_expecting_client_is_asked_for(autojump_clock):
    async with serving() as stream:
        await stream.send_all(get("/", "Content-Length: 3", "Expect: 100-continue"))
        assert bytes(await stream.receive_some()) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"abc")
        (answer,) = answers(bytes(await stream.receive_some()))
        assert answer.status == 200


@pytest.mark.parametrize("cut", [0, 500, 999, 1000])
@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 431)])
async def test_the_head_may_have_exactly_its_limit(extra, status, cut, autojump_clock):
    padding = 1000 - len(get("/", "X: ")) + extra
    raw = get("/", "X: " + "x" * padding)
    async with serving(limits=Limits(http_head=1000)) as stream:
        await stream.send_all(raw[:cut])
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(raw[cut:])
        assert [answer.status for answer in answers(await read_all(stream))] == [status]


async def test_a_bug_in_the_site_is_logged_and_answered(autojump_clock, caplog):
    with caplog.at_level(logging.ERROR):
        (answer,), _ = await probe(get("/bug"))
    assert (answer.status, answer.body) == (500, b"internal error\n")
    assert "ZeroDivisionError" in caplog.text


async def test_426_says_what_to_upgrade_to(autojump_clock):
    for raw in (get("/ws"), opening("Sec-WebSocket-Version: 8", drop="Sec-WebSocket-Version")):
        (answer,), _ = await probe(raw)
        assert answer.headers["upgrade"] == "websocket"
        assert answer.headers["connection"] == "upgrade, close"
        assert answer.headers["sec-websocket-version"] == "13"


async def test_refusals_before_the_upgrade_start_no_conversation(autojump_clock):
    site = TinySite()
    found, _ = await probe(opening(path="/ws?full=1"), site)
    assert found[0].headers["retry-after"] == "5"
    assert site.conversations == 0


async def test_closing_ends_idle_connections_at_once(autojump_clock):
    closing = trio.Event()
    async with serving(closing=closing) as stream:
        await stream.send_all(GET)
        await trio.sleep(5)
        closing.set()
        (answer,) = answers(await read_all(stream))
        assert answer.status == 200
        assert trio.current_time() == 5


async def test_closing_lets_a_request_be_answered_and_then_closes(autojump_clock):
    closing = trio.Event()
    async with serving(closing=closing) as stream:
        await stream.send_all(GET[:10])
        await trio.testing.wait_all_tasks_blocked()
        closing.set()
        await stream.send_all(GET[10:])
        (answer,) = answers(await read_all(stream))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert trio.current_time() == 0


async def test_closing_during_an_answer_closes_after_it(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    closing = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_http, ours, TinySite().serve, PortRules(Limits()), closing=closing))
        await theirs.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        closing.set()
        await trio.testing.wait_all_tasks_blocked()
        assert answers(await read_all(theirs))[0].status == 200
    assert trio.current_time() == 0


async def test_a_new_connection_gets_one_answer_while_the_server_closes(autojump_clock):
    closing = trio.Event()
    closing.set()
    found, ended = await probe(GET, closing=closing)
    assert [answer.status for answer in found] == [200]
    assert ended == 0


async def test_a_client_that_leaves_in_mid_answer_is_no_error(autojump_clock):
    async with serving() as stream:
        await stream.send_all(GET)
        await stream.aclose()


async def test_a_refused_client_that_does_not_hang_up_is_dropped_after_a_second(autojump_clock):
    async with serving() as stream:
        await stream.send_all(b"hello\r\n\r\n")
        assert answers(await read_all(stream))[0].status == 400
        await trio.sleep(0.999)
        await stream.send_all(b"still there")
        await trio.sleep(0.002)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"still there")
