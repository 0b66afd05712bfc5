"""An upload over a connection that dies under it, in virtual time."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest
import trio
from anyio.abc import ByteStream

from reactor_trio.client.http_request import PATIENCE, http_post


class Silent(ByteStream):
    """A server that takes `pieces` pieces and says nothing."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.closed = False

    async def send(self, _item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.left == 0:
            await trio.sleep_forever()
        self.left -= 1

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await trio.sleep_forever()

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("pieces", "why"),
    [(1, "h:1 took no byte of the upload for 60 s"), (3, "h:1 did not answer the upload within 60 s")],
)  # fmt: skip
async def test_an_upload_to_a_dead_server_fails_after_its_patience(autojump_clock, pieces, why):
    stream = Silent(pieces)

    async def connect() -> ByteStream:
        return stream

    async def body():
        for _ in range(2):
            yield b"piece"

    began = trio.current_time()
    with pytest.raises(TimeoutError, match=f"^{why}$"):
        await http_post("ws://h:1/ws", "/uploads", {"content-length": "10"}, body(), connect=connect)
    assert trio.current_time() - began == PATIENCE
    assert stream.closed


async def test_the_code_of_a_refused_upload_comes_from_its_header(autojump_clock):
    sent = trio.Event()

    class Refusing(Silent):
        async def send(self, item: bytes) -> None:
            await super().send(item)
            sent.set()

        async def receive(self, max_bytes: int = 65536) -> bytes:
            await sent.wait()
            return b"HTTP/1.1 413 \r\nreactor-refusal: too_large\r\ncontent-length: 3\r\n\r\nno\n"

    async def connect() -> ByteStream:
        return Refusing(2)

    async def body():
        yield b"piece"

    async with aclosing(body()) as pieces:
        answer = await http_post("ws://h:1/ws", "/uploads", {"content-length": "5"}, pieces, connect=connect)
    assert answer == (413, b"no\n", "too_large")
