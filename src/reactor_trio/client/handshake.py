"""Opening a WebSocket: TCP, TLS and the HTTP upgrade. A refusal is raised with the server's own text."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import SplitResult, urlsplit

import anyio
from anyio.abc import ByteStream
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, RejectData, Request
from wsproto.utilities import RemoteProtocolError

from reactor_trio.client.client_transport import MAX_MESSAGE_SIZE, READ_SIZE, WebSocketTransport
from reactor_trio.client.refusals import known_code, refusal_reason
from reactor_trio.client.urls import is_visible_ascii
from reactor_trio.errors import ConnectionRefused
from reactor_trio.protocol import SUBPROTOCOL
from reactor_trio.protocol.refusals import REFUSAL_HEADER

#: Schemes of URLs whose servers use TLS.
_SECURE = ("wss", "https")

#: Most bytes of a refusal's body that are read.
_MAX_REFUSAL = 4096

#: Most digits of a `Retry-After` that is taken seriously.
_LONGEST_WAIT = 6


async def open_websocket(
    url: str,
    *,
    token: str | None = None,
    stream: ByteStream | None = None,
    ssl_context: ssl.SSLContext | None = None,
    max_message_size: int = MAX_MESSAGE_SIZE,
    timeout: float = 10.0,
) -> WebSocketTransport:
    """Connect to a `ws://` or `wss://` URL and do the WebSocket handshake.

    Args:
        url: the server's URL. Its path and query are sent unchanged.
        token: sent to the server in the header `Authorization`.
        stream: a connected stream to use instead of TCP. It is closed if the handshake fails.
        ssl_context: for `wss`; by default one that checks the server's certificate.
        max_message_size: bytes of the largest message that the transport accepts.
        timeout: seconds for the connection and the handshake together.

    Raises:
        ConnectionRefused: the server answered with another HTTP status than 101.
        OSError: no connection, or the server does not speak WebSocket.
        TimeoutError: no answer in time.
        ValueError: the URL is not a WebSocket URL, or the URL or the token has a character that is not allowed in it.

    Cancelled, it leaves nothing open.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or parts.hostname is None:
        raise ValueError(f"expected a URL like ws://127.0.0.1:8080/ws, got {url.partition('?')[0]!r}")
    if not is_visible_ascii(url):
        raise ValueError(
            f"a URL, its query included, has visible ASCII characters only; write a space as %20, others as "
            f"urllib.parse.quote() does, and a host in its xn-- form: {url.partition('?')[0]!r}"
        )
    if token is not None and not is_visible_ascii(token):
        raise ValueError("token: it may have visible ASCII characters only, without spaces")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    shown = [] if token is None else [(b"authorization", b"Bearer " + token.encode())]
    request = Request(host=parts.netloc.rpartition("@")[2], target=target, subprotocols=[SUBPROTOCOL], extra_headers=shown)
    with answer_within(timeout, parts):
        if stream is None:
            stream = await connect_stream(parts, ssl_context)
        try:
            websocket = await _upgrade(stream, request)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
    return WebSocketTransport(stream, websocket, max_message_size=max_message_size)


async def connect_stream(url: SplitResult, ssl_context: ssl.SSLContext | None) -> ByteStream:
    """Connect to the server of a URL by TCP, and TLS for `wss` and `https`. Raises OSError."""
    assert url.hostname is not None, url
    try:
        if url.scheme in _SECURE:
            return await anyio.connect_tcp(
                url.hostname, url.port or 443, tls=True, ssl_context=ssl_context, tls_standard_compatible=False
            )
        return await anyio.connect_tcp(url.hostname, url.port or 80)
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
        cause = error.__cause__ or error
        # Of a host with several addresses, each has its error.
        errors = cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,)
        why = "; ".join(dict.fromkeys(map(_in_words, errors)))
        raise ConnectionError(f"cannot connect to {address(url)}: {why}") from error


def _in_words(error: BaseException) -> str:
    number = getattr(error, "errno", None) or 0  # a resolver's is negative
    plain = number > 0 and not isinstance(error, ssl.SSLError)  # whose `errno` is OpenSSL's
    return os.strerror(number) if plain else str(error)


def address(url: SplitResult) -> str:
    """Return host and port of a server's URL, for messages."""
    return f"{url.hostname}:{url.port or (443 if url.scheme in _SECURE else 80)}"


@contextmanager
def answer_within(timeout: float, url: SplitResult) -> Iterator[None]:
    """Raise a TimeoutError that names the server if the block takes longer than `timeout` seconds."""
    try:
        with anyio.fail_after(timeout):
            yield
    except TimeoutError:
        raise TimeoutError(f"no answer from {address(url)} within {timeout:g} s") from None


async def _upgrade(stream: ByteStream, request: Request) -> WSConnection:
    websocket = WSConnection(ConnectionType.CLIENT)
    refusal: RejectConnection | None = None
    body = bytearray()
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # reading the answer shows why
            await stream.send(websocket.send(request))
        while True:
            data: bytes | None = None
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                data = await stream.receive(READ_SIZE)
            if data is None and refusal is None:
                raise ConnectionError(f"{request.host} closed the connection without an answer")
            websocket.receive_data(data)
            complete = data is None
            for event in websocket.handshake.events():
                if isinstance(event, AcceptConnection):
                    return websocket
                if isinstance(event, RejectConnection):
                    refusal = event
                    complete |= not event.has_body
                elif isinstance(event, RejectData):
                    body += event.data
                    complete |= event.body_finished or len(body) >= _MAX_REFUSAL
            if refusal is not None and complete:
                raise _refused(refusal, body)
    except (RemoteProtocolError, UnicodeError) as error:  # wsproto decodes some headers as ASCII without a check
        if refusal is not None:
            raise _refused(refusal, body) from None
        raise ConnectionError(f"{request.host} does not answer as a WebSocket server does: {error}") from None


def _refused(refusal: RejectConnection, body: bytearray) -> ConnectionRefused:
    status = refusal.status_code
    message, _ = refusal_reason(status, body[:_MAX_REFUSAL])
    headers = {bytes(name).lower(): bytes(value) for name, value in refusal.headers}
    retry_after = headers.get(b"retry-after", b"")
    # The header may also hold a date, which this project's server never sends, or an absurdly large number.
    seconds = float(retry_after) if retry_after.isdigit() and len(retry_after) <= _LONGEST_WAIT else None
    return ConnectionRefused(status, message, retry_after=seconds, code=known_code(headers.get(REFUSAL_HEADER.encode())))
