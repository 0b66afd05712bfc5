"""Uploads: `POST /uploads` by any `Post`, and the `Post` over HTTP/1.1 (h11 over an anyio stream)."""

from __future__ import annotations

import mimetypes
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http.client import responses
from pathlib import PurePath
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import anyio
import h11
import msgspec
from anyio.abc import ByteStream

from reactor_trio.client.handshake import address, answer_within, connect_stream
from reactor_trio.errors import ProtocolError, UploadRefused

_PIECE = 256 * 1024
_LONGEST_ANSWER = 64 * 1024


class Upload(msgspec.Struct, frozen=True):
    """A file on the server. Pass it to a command, as the argument that takes a file."""

    upload_id: str
    name: str
    mime_type: str
    size: int


class Post(Protocol):
    """Posts a body to a path of the server."""

    async def __call__(
        self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]
    ) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises OSError without an answer, and any exception of `body`."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview


async def upload(post: Post, token: str, source: Source, name: str | None, mime_type: str | None) -> Upload:
    """See `Client.upload`."""
    if not isinstance(source, bytes | bytearray | memoryview):
        name = PurePath(source).name if name is None else name
    name = "file" if name is None else name
    mime_type = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    async with _open(source) as (size, body):
        status, answer = await post(
            "/uploads?" + urlencode({"name": name, "mime_type": mime_type}),
            {"authorization": f"Bearer {token}", "content-length": str(size)},
            body,
        )
    if status != 201:
        raise UploadRefused(status, answer.decode("utf-8", "replace").strip() or responses.get(status, f"HTTP {status}"))
    try:
        return msgspec.json.decode(answer, type=Upload)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"the answer to an upload cannot be read: {error}") from None


@asynccontextmanager
async def _open(source: Source) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Yield the size and the pieces of `source`."""
    if isinstance(source, bytes | bytearray | memoryview):
        view = memoryview(source).cast("B")
        yield len(view), _Pieces(len(view), _from_memory(view))
        return
    async with await anyio.open_file(source, "rb") as file:
        size = os.fstat(file.wrapped.fileno()).st_size
        yield size, _Pieces(size, file.read)


def _from_memory(view: memoryview) -> Callable[[int], Awaitable[bytes]]:
    taken = 0

    async def read(count: int) -> bytes:
        nonlocal taken
        taken += count
        return bytes(view[taken - count : taken])

    return read


class _Pieces:
    """The first `size` bytes of `read`, as an async iterator."""

    def __init__(self, size: int, read: Callable[[int], Awaitable[bytes]]) -> None:
        self._left = size
        self._read = read

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        piece = await self._read(min(self._left, _PIECE))
        if not piece:
            raise OSError("the file became shorter while it was uploaded")
        self._left -= len(piece)
        return piece


class HttpPost:
    """Posts to the server of a session's WebSocket, over a connection of its own; a `Post`.

    Args:
        url: the URL of the WebSocket; a `/ws` at the end of its path is replaced by the target.
        ssl_context, timeout: as for `connect`; `timeout` is for connecting only.
        stream: makes the connection; by default TCP, and TLS for `wss`.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        stream: Callable[[], Awaitable[ByteStream]] | None = None,
    ) -> None:
        self._url = urlsplit(url)
        self._timeout = timeout
        self._connect = stream or partial(connect_stream, self._url, ssl_context)

    async def __call__(self, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> tuple[int, bytes]:
        """See `Post`. Cancelled, it leaves nothing open."""
        with answer_within(self._timeout, self._url):
            stream = await self._connect()
        try:
            return await self._exchange(stream, target, headers, body)
        finally:
            await anyio.aclose_forcefully(stream)

    async def _exchange(
        self, stream: ByteStream, target: str, headers: Mapping[str, str], body: AsyncIterator[bytes]
    ) -> tuple[int, bytes]:
        """Send and receive at the same time: a server that refuses does not wait for the whole body."""
        http = h11.Connection(h11.CLIENT)
        head = h11.Request(
            method="POST", target=self._url.path.removesuffix("/ws").rstrip("/") + target,
            headers=[("host", self._url.netloc.rpartition("@")[2]), ("connection", "close"), *headers.items()],
        )  # fmt: skip
        answer: tuple[int, bytes] | None = None
        failure: Exception | None = None

        async def send() -> None:
            nonlocal failure
            try:
                await stream.send(http.send(head) or b"")
                async for piece in body:
                    await stream.send(http.send(h11.Data(data=piece)) or b"")
                http.send(h11.EndOfMessage())
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # reading the answer shows why
            except Exception as error:
                failure = error
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            try:
                answer = await _receive_answer(http, stream)
            except (h11.RemoteProtocolError, anyio.BrokenResourceError, OSError) as error:
                why = f"{address(self._url)} closed the connection without an answer: {error}"
                failure = failure or ConnectionError(why)
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        assert answer is not None
        return answer


async def _receive_answer(http: h11.Connection, stream: ByteStream) -> tuple[int, bytes]:
    status, body = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(_LONGEST_ANSWER))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data[: _LONGEST_ANSWER - len(body)]
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body)
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("not an HTTP/1.1 answer")
