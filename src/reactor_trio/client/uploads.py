"""Uploads: `POST /uploads` by any `Post`, and the `Post` over HTTP/1.1 (h11 over an anyio stream)."""

from __future__ import annotations

import mimetypes
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import anyio
import h11
import msgspec
from anyio.abc import ByteStream

from reactor_trio.client.handshake import address, answer_within, connect_stream
from reactor_trio.client.refusals import known_code, refusal_reason
from reactor_trio.client.urls import path_beside
from reactor_trio.errors import ProtocolError, UploadRefused
from reactor_trio.protocol.refusals import REFUSAL_HEADER

#: Seconds within which the server takes a piece of the body, and within which it answers when it has all of them.
PATIENCE = 60.0

_PIECE = 256 * 1024
_LONGEST_ANSWER = 64 * 1024


class Upload(msgspec.Struct, frozen=True):
    """A file on the server. Pass it to a command, as the argument that takes a file."""

    upload_id: str
    name: str
    mime_type: str
    size: int


class Answer(NamedTuple):
    """The server's answer to a `Post`: status, body, and the code of its refusal, None if it gave none."""

    status: int
    body: bytes
    code: str | None = None


#: Posts a body to a path of the server: path, headers, body. Raises OSError (a TimeoutError is one) without an answer, and
#: any exception of the body.
Post = Callable[[str, Mapping[str, str], AsyncIterator[bytes]], Awaitable[Answer]]

Source = str | os.PathLike[str] | bytes | bytearray | memoryview


async def upload(post: Post, token: str, source: Source, name: str | None, mime_type: str | None) -> Upload:
    """See `Client.upload`."""
    if not isinstance(source, bytes | bytearray | memoryview):
        name = PurePath(source).name if name is None else name
    name = "file" if name is None else name
    mime_type = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    async with _open(source) as (size, body):
        # The token goes into the query, which no proxy replaces.
        target = "/uploads?" + urlencode({"name": name, "mime_type": mime_type, "token": token})
        answer = Answer(*await post(target, {"content-length": str(size)}, body))
    if answer.status != 201:
        reason, own = refusal_reason(answer.status, answer.body)
        raise UploadRefused(answer.status, reason if own else f"{answer.status}: {reason}", answer.code)
    try:
        return msgspec.json.decode(answer.body, type=Upload)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"the answer to an upload cannot be read: {error}") from None


@asynccontextmanager
async def _open(source: Source) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Yield the size and the pieces of `source`."""
    async with AsyncExitStack() as opened:
        if isinstance(source, bytes | bytearray | memoryview):
            size, pieces = memoryview(source).nbytes, _pieces_of_memory(memoryview(source).cast("B"))
        else:
            file = await opened.enter_async_context(await anyio.open_file(source, "rb"))
            size = os.fstat(file.wrapped.fileno()).st_size
            pieces = _pieces_of_file(file, size)
        yield size, await opened.enter_async_context(aclosing(pieces))


async def _pieces_of_memory(view: memoryview) -> AsyncGenerator[bytes]:
    for start in range(0, len(view), _PIECE):
        yield bytes(view[start : start + _PIECE])


async def _pieces_of_file(file: anyio.AsyncFile[bytes], left: int) -> AsyncGenerator[bytes]:
    while left:
        piece = await file.read(min(left, _PIECE))
        if not piece:
            raise OSError("the file became shorter while it was uploaded")
        left -= len(piece)
        yield piece


async def http_post(
    url: str,
    target: str,
    headers: Mapping[str, str],
    body: AsyncIterator[bytes],
    *,
    ssl_context: ssl.SSLContext | None = None,
    timeout: float = 10.0,
    connect: Callable[[], Awaitable[ByteStream]] | None = None,
) -> Answer:
    """Post to the server of a session's WebSocket, over a connection of its own; without `url` a `Post`.

    Args:
        url: the URL of the WebSocket.
        target: path and query, as a link that is relative to it.
        ssl_context, timeout: as for `connect`; `timeout` is for connecting only. After that the server takes each piece, and
            answers when it has all of them, within `PATIENCE` seconds.
        connect: makes the connection; by default TCP, and TLS for `wss`.

    Raises TimeoutError. Cancelled, it leaves nothing open.
    """
    server = urlsplit(url)
    head = h11.Request(
        method="POST", target=path_beside(server.path, target.lstrip("/")),
        headers=[("host", server.netloc.rpartition("@")[2]), ("connection", "close"), *headers.items()],
    )  # fmt: skip
    with answer_within(timeout, server):
        stream = await (connect() if connect is not None else connect_stream(server, ssl_context))
    try:
        return await _exchange(stream, head, body, address(server))
    finally:
        await anyio.aclose_forcefully(stream)


async def _exchange(stream: ByteStream, head: h11.Request, body: AsyncIterator[bytes], server: str) -> Answer:
    """Send and receive at the same time: a server that refuses does not wait for the whole body."""
    http = h11.Connection(h11.CLIENT)
    answer = Answer(0, b"")
    failure: Exception | None = None
    answering = anyio.CancelScope()

    async def send() -> None:
        nonlocal failure
        try:
            await _send(stream, http.send(head), server)
            async for piece in body:
                await _send(stream, http.send(h11.Data(data=piece)), server)
            http.send(h11.EndOfMessage())
            answering.deadline = anyio.current_time() + PATIENCE
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # reading the answer shows why
        except Exception as error:
            failure = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        try:
            with answering:
                answer = await _receive_answer(http, stream)
            if answering.cancelled_caught:
                failure = TimeoutError(f"{server} did not answer the upload within {PATIENCE:g} s")
        except (h11.RemoteProtocolError, anyio.BrokenResourceError, OSError) as error:
            failure = failure or ConnectionError(f"{server} closed the connection without an answer: {error}")
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answer


async def _send(stream: ByteStream, data: bytes | None, server: str) -> None:
    try:
        with anyio.fail_after(PATIENCE):
            await stream.send(data or b"")
    except TimeoutError:
        raise TimeoutError(f"{server} took no byte of the upload for {PATIENCE:g} s") from None


async def _receive_answer(http: h11.Connection, stream: ByteStream) -> Answer:
    status, body, code = 0, bytearray(), None
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(_LONGEST_ANSWER))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status, code = event.status_code, known_code(dict(event.headers).get(REFUSAL_HEADER.encode()))
        elif isinstance(event, h11.Data):
            body += event.data[: _LONGEST_ANSWER - len(body)]
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(body), code)
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("not an HTTP/1.1 answer")
