"""One HTTP/1.1 request of the client and its answer, over a connection of its own (h11 over an anyio stream).

No answer costs more memory or time than the caller allows: a server, or a proxy, may send one without an end.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import anyio
import h11
from anyio.abc import ByteStream

from reactor_trio.client.handshake import address, answer_within, connect_stream
from reactor_trio.client.refusals import known_code
from reactor_trio.client.urls import path_beside
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol.refusals import REFUSAL_HEADER

#: Seconds within which the server takes a piece of the body, and within which it answers when it has all of them.
PATIENCE = 60.0

#: Bytes that are read at a time, and most bytes of the answer to a `POST`; the rest of it is left unread.
_READ_SIZE = _LONGEST_ANSWER = 64 * 1024

#: Makes the connection to a server.
Connect = Callable[[], Awaitable[ByteStream]]


class Answer(NamedTuple):
    """The server's answer to a `Post`: status, body, and the code of its refusal, None if it gave none."""

    status: int
    body: bytes
    code: str | None = None


#: Posts a body to a path of the server: path, headers, body. Raises OSError (a TimeoutError is one) without an answer, and
#: any exception of the body.
Post = Callable[[str, Mapping[str, str], AsyncIterator[bytes]], Awaitable[Answer]]

#: Gets what is at a path of the server, in at most so many bytes. Raises OSError without an answer, and ProtocolError for a
#: longer one.
Get = Callable[[str, int], Awaitable[Answer]]


async def http_post(
    url: str,
    target: str,
    headers: Mapping[str, str],
    body: AsyncIterator[bytes],
    *,
    ssl_context: ssl.SSLContext | None = None,
    timeout: float = 10.0,
    connect: Connect | None = None,
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
    head = _request("POST", server, target, headers)
    with answer_within(timeout, server):
        stream = await (connect() if connect is not None else connect_stream(server, ssl_context))
    try:
        return await _exchange(stream, head, body, address(server))
    finally:
        await anyio.aclose_forcefully(stream)


async def http_get(
    url: str,
    target: str,
    headers: Mapping[str, str],
    *,
    most: int,
    ssl_context: ssl.SSLContext | None = None,
    timeout: float = 10.0,
    connect: Connect | None = None,
) -> Answer:
    """Get what is at `target`, a link that is relative to the server's `url`.

    Args:
        most: most bytes of the answer's body.
        timeout: seconds for connecting, and for the answer to its last byte, together.
        ssl_context, connect: as for `http_post`.

    Raises TimeoutError, ConnectionError, another OSError if there is no connection, and ProtocolError for a longer answer.
    Cancelled, it leaves nothing open.
    """
    server, http = urlsplit(url), h11.Connection(h11.CLIENT)
    request = (http.send(_request("GET", server, target, headers)) or b"") + (http.send(h11.EndOfMessage()) or b"")
    with answer_within(timeout, server):
        stream = await (connect() if connect is not None else connect_stream(server, ssl_context))
        try:
            await stream.send(request)
            answer = await _receive_answer(http, stream, most + 1)
        except (h11.RemoteProtocolError, anyio.BrokenResourceError) as error:
            raise ConnectionError(f"{address(server)} closed the connection without an answer: {error}") from None
        finally:
            await anyio.aclose_forcefully(stream)
    if len(answer.body) > most:
        raise ProtocolError(f"{address(server)} answered with more than {most} bytes")
    return answer


def _request(method: str, server: SplitResult, target: str, headers: Mapping[str, str]) -> h11.Request:
    return h11.Request(
        method=method, target=path_beside(server.path, target.lstrip("/")),
        headers=[("host", server.netloc.rpartition("@")[2]), ("connection", "close"), *headers.items()],
    )  # fmt: skip


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
                answer = await _receive_answer(http, stream, _LONGEST_ANSWER)
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


async def _receive_answer(http: h11.Connection, stream: ByteStream, most: int) -> Answer:
    """Receive the answer with at most `most` bytes of its body; the rest is not read."""
    status, body, code = 0, bytearray(), None
    while len(body) < most:
        event = http.next_event()
        if event is h11.NEED_DATA:
            try:
                http.receive_data(await stream.receive(_READ_SIZE))
            except anyio.EndOfStream:
                http.receive_data(b"")
        elif isinstance(event, h11.Response):
            status, code = event.status_code, known_code(dict(event.headers).get(REFUSAL_HEADER.encode()))
        elif isinstance(event, h11.Data):
            body += event.data[: most - len(body)]
        elif isinstance(event, h11.EndOfMessage):
            break
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("not an HTTP/1.1 answer")
    return Answer(status, bytes(body), code)
