"""`http_get`: an answer that is too long, too slow, or broken, in virtual time."""

from __future__ import annotations

import re

import anyio
import pytest
import trio
from anyio.abc import ByteStream

from reactor_trio.client.http_request import http_get
from reactor_trio.errors import ProtocolError

OK = b"HTTP/1.1 200 OK\r\n"


class Answering(ByteStream):
    """A server that answers with these pieces, one in each `pause` seconds, and then closes the connection."""

    def __init__(self, *pieces: bytes, pause: float = 0.0) -> None:
        self.left, self.pause = list(pieces), pause
        self.asked = b""
        self.closed = False

    async def send(self, item: bytes) -> None:
        self.asked += item
        await trio.lowlevel.checkpoint()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await trio.sleep(self.pause)
        if not self.left:
            raise anyio.EndOfStream
        return self.left.pop(0)

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed = True


async def ask(server: Answering, most: int = 10, headers: dict[str, str] | None = None) -> tuple[int, bytes, str | None]:
    async def connect() -> ByteStream:
        return server

    try:
        return await http_get("https://h/some/page", "schema", headers or {}, most=most, timeout=10, connect=connect)
    finally:
        assert server.closed


async def test_it_asks_beside_the_page_and_reads_the_whole_answer(autojump_clock):
    server = Answering(OK + b"content-length: 10\r\n\r\n", b"01234", b"56789", pause=3)
    assert await ask(server, headers={"authorization": "Bearer t"}) == (200, b"0123456789", None)
    assert server.asked.startswith(b"GET /some/schema HTTP/1.1\r\nhost: h\r\n")
    assert b"\r\nauthorization: Bearer t\r\n" in server.asked


async def test_the_code_of_a_refusal_comes_with_the_answer(autojump_clock):
    server = Answering(b"HTTP/1.1 404 Not Found\r\nreactor-refusal: not_found\r\ncontent-length: 0\r\n\r\n")
    assert await ask(server) == (404, b"", "not_found")


@pytest.mark.parametrize("head", [b"content-length: 11\r\n\r\n", b"\r\n"], ids=["announced", "without an end"])
async def test_an_answer_that_is_one_byte_too_long_is_refused_and_not_read_further(autojump_clock, head):
    server = Answering(OK + head, b"0123456789", b"0", b"more", b"and more")
    with pytest.raises(ProtocolError, match=r"^h:443 answered with more than 10 bytes$"):
        await ask(server)
    assert server.left == [b"more", b"and more"]


async def test_an_answer_that_trickles_is_given_up_after_the_time_for_all_of_it(autojump_clock):
    server = Answering(OK + b"\r\n", *[b"."] * 99, pause=4)
    with pytest.raises(TimeoutError, match=r"^no answer from h:443 within 10 s$"):
        await ask(server, most=1000)
    assert trio.current_time() == 10


@pytest.mark.parametrize("piece", [b"HTTP/1.1 ", b"SMTP ready\r\n\r\n", OK + b"content-length: 5\r\n\r\n12"])
async def test_what_is_no_whole_answer_is_a_connection_error(autojump_clock, piece):
    with pytest.raises(ConnectionError, match=re.escape("h:443 closed the connection without an answer: ")):
        await ask(Answering(piece))
