"""The limits of an HTTP connection, each just within and just beyond. test_websocket_stream.py has those of messages."""

from __future__ import annotations

import pytest
import trio
from tests.support.transport_peers import answers, opening, read_all, serving

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(("wait", "status", "ended"), [(9.9, 200, 9.9), (10.1, 408, 10.0)])
async def test_a_head_may_take_as_long_as_the_handshake(wait, status, ended, autojump_clock):
    async with serving() as stream, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask():
            await stream.send_all(HEAD)
            await trio.sleep(wait)
            await stream.send_all(b"Connection: close\r\n\r\n")

        (answer,) = answers(await read_all(stream))
        nursery.cancel_scope.cancel()
        assert (answer.status, trio.current_time()) == (status, ended)


@pytest.mark.parametrize(("wait", "statuses", "ended"), [(29.9, [200, 200], 29.9), (30.1, [200], 30.0)])
async def test_a_kept_connection_may_rest_for_the_idle_time(wait, statuses, ended, autojump_clock):
    async with serving() as stream, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask():
            await stream.send_all(HEAD + b"\r\n")
            await trio.sleep(wait)
            await stream.send_all(HEAD + b"Connection: close\r\n\r\n")

        found = answers(await read_all(stream))
        nursery.cancel_scope.cancel()
        assert ([answer.status for answer in found], trio.current_time()) == (statuses, ended)


@pytest.mark.parametrize(("wait", "status", "ended"), [(9.9, 200, 19.8), (10.1, 408, 19.9)])
async def test_a_body_that_is_read_whole_has_as_long_again_behind_its_head(wait, status, ended, autojump_clock):
    async with serving(methods=("POST",)) as stream, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def ask():
            await stream.send_all(HEAD.replace(b"GET /", b"POST /upload"))
            await trio.sleep(9.9)
            await stream.send_all(b"Content-Length: 2\r\nConnection: close\r\n\r\n1")
            await trio.sleep(wait)
            await stream.send_all(b"2")

        (answer,) = answers(await read_all(stream))
        nursery.cancel_scope.cancel()
        assert (answer.status, round(trio.current_time(), 6)) == (status, ended)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(64 * 1024, 200), (64 * 1024 + 1, 413)])
async def test_a_body_that_is_read_whole_may_have_exactly_its_limit(size, status, chunked, autojump_clock):
    if chunked:
        body, line = f"{size:x}\r\n".encode() + bytes(size) + b"\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"
    else:
        body, line = bytes(size), f"Content-Length: {size}".encode()
    async with serving(methods=("GET", "HEAD", "POST")) as stream:
        await stream.send_all(HEAD.replace(b"GET /", b"POST /upload") + line + b"\r\nConnection: close\r\n\r\n" + body)
        (answer,) = answers(await read_all(stream))
    assert (answer.status, answer.body[:9]) == (status, f"POST {size}"[:9].encode() if status == 200 else b"a body ma")


@pytest.mark.parametrize(("fields", "status"), [(64, 200), (65, 400)])
async def test_a_query_may_have_sixty_four_fields(fields, status, autojump_clock):
    query = "&".join(f"f{number}=1" for number in range(fields)).encode()
    async with serving() as stream:
        await stream.send_all(HEAD.replace(b"GET / ", b"GET /?" + query + b" ") + b"Connection: close\r\n\r\n")
        (answer,) = answers(await read_all(stream))
    assert answer.status == status


@pytest.mark.parametrize(
    ("head", "admission", "status", "at"), [(9.9, 9.9, 101, 19.8), (9.9, 10.1, 503, 19.9), (0, 10.1, 503, 10.0)]
)
async def test_an_admission_has_a_time_of_its_own_and_so_has_the_opening_behind_it(
    head, admission, status, at, autojump_clock
):
    async with serving() as stream:
        request = opening(path=f"/ws?admission={admission}")
        await stream.send_all(request[:20])
        await trio.sleep(head)
        await stream.send_all(request[20:])
        answer = bytes(await stream.receive_some())
        assert (int(answer.split()[1]), round(trio.current_time(), 6)) == (status, at)
        assert (b"retry-after: 1" in answer) == (status == 503)
        if status == 503:
            assert b"did not decide within 10 s" in answer + await read_all(stream)


async def test_who_wants_its_refusal_inside_gets_that_of_a_late_admission_there(autojump_clock):
    async with serving() as stream:
        await stream.send_all(opening(path="/ws?admission=11&refusals=bye"))
        answer = bytes(await stream.receive_some())
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b'"status":503' in answer
        assert trio.current_time() == 10
