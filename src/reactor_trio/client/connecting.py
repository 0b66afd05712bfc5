"""`connect()`: from a URL to a Client whose session has begun."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from reactor_trio.client.client import Client
from reactor_trio.client.decoders import wanted
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.running import running
from reactor_trio.client.transport import MAX_MESSAGE_SIZE, WebSocketTransport
from reactor_trio.client.uploads import HttpPost

_SCHEMES = {"http": "ws", "https": "wss"}
#: Beats without a byte after which a server is lost, as it counts its clients: one may be late.
_MISSED_BEATS = 2


@asynccontextmanager
async def connect(
    url: str,
    *,
    video: Iterable[str] | None = None,
    audio: Iterable[str] | None = None,
    role: Literal["control", "viewer"] = "control",
    token: str | None = None,
    model: str | None = None,
    on_queued: Callable[[int, int], object] | None = None,
    on_ending: Callable[[str, float | None], object] | None = None,
    resume: bool = True,
    on_lost: Callable[[str], object] | None = None,
    on_resumed: Callable[[float], object] | None = None,
    feedback: bool = True,
    max_message_size: int = MAX_MESSAGE_SIZE,
    timeout: float = 10.0,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Client]:
    """Connect to a server and yield the Client once its session has begun; leaving the block closes politely.

    Args:
        url: `ws://HOST:PORT/ws` (`wss` for TLS). The address that the server prints (`http://HOST:PORT/`) works too.
        video: codecs, best first; those that cannot be decoded here are left out. By default jpeg, h264, vp8, vp9 and av1,
            `[]` for control only.
        audio: codecs for sound, likewise, of opus and pcm_s16le; `[]` for none. By default pcm_s16le.
        role: `"control"`, or `"viewer"` to watch a session that another client controls.
        token: what to show: the server's token, a ticket, or a session's share token. It travels in a header, also one that
            stands in `url`, so that it is in no log of a proxy.
        model: refuse to talk to a server that serves a model of another name.
        on_queued: called with `(position, total)` while the server has no room.
        on_ending: called with `(reason, seconds)` when the server says that the session will end (`"idle"`, `"expired"`,
            `"draining"`), with None for seconds when it takes that back.
        resume: when the link is lost, come back to the same session, if the server keeps it (`runtime.resume_window`), for
            as long as it does, or for 60 s if it does not say. Commands wait meanwhile, iterators go on afterwards.
        on_lost: called with the reason when the link is lost and the client begins to come back.
        on_resumed: called with the seconds that it was away when it is back.
        feedback: tell the server of each frame that comes, so that it sends no more than the link carries.
        max_message_size: bytes of the largest message that will be taken.
        timeout: seconds for TCP and the handshakes. Waiting in the server's queue has no limit.
        ssl_context: for `wss`; by default one that checks the server's certificate.

    Raises:
        ConnectionRefused: the server refused with an HTTP status; `retry_after` says when to try again, if it knows.
        SessionEnded: the server ended the session before it began.
        OSError: no connection; TimeoutError is one of them.
        ValueError: `url` is none, or no codec in `video` or `audio` can be decoded here.

    An exception of the block comes out as it is, on both loops. Cancelled at any point, it leaves nothing open.
    """
    url, in_url = without_token(url)
    address = session_url(url, video=video, audio=audio, role=role, model=model, feedback=feedback)
    open_one = partial(open_websocket, ssl_context=ssl_context, max_message_size=max_message_size, timeout=timeout)
    transport = await open_one(address, token=in_url or token)

    async def reopen(resume_token: str, after: int, codecs: Iterable[str] | None) -> WebSocketTransport:
        again = await open_one(resuming_url(address, resume_token, after, codecs))  # the token that is shown is this one
        again.expect_byte_every(_MISSED_BEATS * client.heartbeat)
        return again

    client = Client(
        transport, on_queued=on_queued, on_ending=on_ending, feedback=feedback,
        post=HttpPost(address, ssl_context=ssl_context, timeout=timeout),
        reopen=reopen if resume else None, on_lost=on_lost, on_resumed=on_resumed,
    )  # fmt: skip
    async with running(client):
        transport.expect_byte_every(_MISSED_BEATS * client.heartbeat)
        yield client


def resuming_url(address: str, resume_token: str, after: int, video: Iterable[str] | None = None) -> str:
    """`address`, a URL of `session_url`, for coming back to its session; `video` if other codecs were asked for since."""
    parts = urlsplit(address)
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    if video is not None:
        fields["video"] = ",".join(video) or "none"
    query = urlencode(fields | {"resume": resume_token, "after": str(after)}, safe=",")
    return urlunsplit(parts._replace(query=query))


def without_token(url: str) -> tuple[str, str | None]:
    """`url`, and the token that stood in its query, or behind its `#` as in the links that the page makes."""
    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    found = [value for key, value in (*fields, *parse_qsl(parts.fragment)) if key == "token" and value]
    if not found:
        return url, None
    query = urlencode([field for field in fields if field[0] != "token"], safe=",")
    return urlunsplit(parts._replace(query=query, fragment="")), found[0]


def session_url(
    url: str,
    *,
    video: Iterable[str] | None = None,
    audio: Iterable[str] | None = None,
    role: str = "control",
    token: str | None = None,
    model: str | None = None,
    feedback: bool = False,
) -> str:
    """The WebSocket URL that asks for such a session. Raises ValueError if none of the codecs named can be decoded here."""
    parts = urlsplit(url)
    query = {
        "video": ",".join(wanted(video)) or "none",
        "audio": None if audio is None else ",".join(wanted(audio, "audio")) or "none",
        "role": role,
        "token": token,
        "model": model,
        "feedback": "1" if feedback else None,
    }
    given = {key for key, _value in parse_qsl(parts.query, keep_blank_values=True)}
    added = urlencode({key: value for key, value in query.items() if value is not None and key not in given}, safe=",")
    return urlunsplit(
        (
            _SCHEMES.get(parts.scheme, parts.scheme),
            parts.netloc,
            "/ws" if parts.path in ("", "/") else parts.path,
            f"{parts.query}&{added}" if parts.query else added,
            "",
        )
    )
