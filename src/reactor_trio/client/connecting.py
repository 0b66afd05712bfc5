"""`connect()`: from a URL to a Client whose session has begun."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from typing import Literal

from reactor_trio.client.client import Client
from reactor_trio.client.client_transport import MAX_MESSAGE_SIZE
from reactor_trio.client.observing import observing
from reactor_trio.client.route import Route
from reactor_trio.client.running import running
from reactor_trio.client.urls import session_url, without_token


@asynccontextmanager
async def connect(
    url: str,
    *,
    video: Iterable[str] | None = None,
    audio: Iterable[str] | None = None,
    role: Literal["control", "viewer"] = "control",
    token: str | None = None,
    model: str | None = None,
    fork: str | None = None,
    world: str | None = None,
    on_queued: Callable[[int, int], object] | None = None,
    on_waiting: Callable[[str], object] | None = None,
    on_admitted: Callable[[str], object] | None = None,
    on_ending: Callable[[str, float | None], object] | None = None,
    resume: bool = True,
    on_lost: Callable[[str], object] | None = None,
    on_resumed: Callable[[float], object] | None = None,
    feedback: bool = True,
    max_message_size: int = MAX_MESSAGE_SIZE,
    timeout: float = 10.0,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Client]:
    """Connect to a server, or through a gate to one of its replicas, and yield the Client once its session has begun.

    Leaving the block closes the connection politely.

    Args:
        url: `ws://HOST:PORT/ws` (`wss` for TLS). The address that the server prints (`http://HOST:PORT/`) works too. It may
            be the URL of a gate: the client waits in the gate's queue, then connects to the replica that has a place.
        video: codecs, best first; those that cannot be decoded here are left out. By default jpeg, h264, vp8, vp9 and av1;
            `[]` for no video.
        audio: audio codecs, likewise, of opus and pcm_s16le; `[]` for none. By default pcm_s16le.
        role: `"control"`, or `"viewer"` to watch a session that another client controls.
        token: the server's token, a ticket, or a session's share token. The client sends it in a header, also if it is part
            of `url`, so no proxy logs it; this argument has priority. A replica gets the gate's ticket instead.
        model: refuse to connect to a server that serves a model of another name.
        fork: the token of a fork (`client.worlds.fork`), at whose world the session begins.
        world: the id of a saved world (`client.worlds.save`), likewise.
        on_queued: called with `(position, total)` while the server has no room.
        on_waiting: called with the reason why there is no room, before `on_queued`, and again when the reason changes.
        on_admitted: called with the address of the replica to which the gate sends this client.
        on_ending: called with `(reason, seconds)` when the server says that the session will end (`"idle"`, `"expired"`,
            `"draining"`). `seconds` is None when the server cancels that end.
        resume: reconnect to the same session when the link is lost, if the server keeps it (`runtime.resume_window`), for as
            long as it does, or for 60 s if it does not say. Meanwhile commands wait; iterators continue afterwards.
        on_lost: called with the reason when the link is lost and the client starts to reconnect.
        on_resumed: called with the seconds without a link when the session continues.
        feedback: acknowledge each video frame, so that the server sends no more than the link carries.
        max_message_size: bytes of the largest message that the client accepts.
        timeout: seconds for TCP and the handshakes of one connection, and then for the server's first message, which comes
            at once. The wait in the server's queue has no limit.
        ssl_context: for `wss`; by default one that checks the server's certificate.

    Raises:
        ConnectionRefused: the server refused with an HTTP status; `retry_after` says when to try again, if the server said
            it. Also, as any other error, from a replica, after the client asked the gate three more times without success.
        SessionEnded: the server ended the session before it began, or the link was lost while the client waited.
        OSError: no connection; TimeoutError is a subclass.
        ValueError: `url` is not such a URL, or no codec in `video` or `audio` can be decoded here.
        RuntimeError: another task left the block than entered it, as happens to an async generator that is dropped before
            its end. The connection is closed all the same.

    An exception of the block leaves it unchanged, on both loops. The functions `on_...` must not wait; what one of them
    raises ends the session and leaves the block in the same way. Cancelled at any point, it leaves nothing open.
    """
    url, in_url = without_token(url)
    route = Route(
        session_url(url, video=video, audio=audio, role=role, model=model, feedback=feedback, follow=True,
                    fork=fork, world=world),
        in_url if token is None else token,
        on_admitted=on_admitted, ssl_context=ssl_context, max_message_size=max_message_size, timeout=timeout,
    )  # fmt: skip
    client = Client(
        await route.connect(), follow=route.follow, on_queued=on_queued, on_waiting=on_waiting, on_ending=on_ending,
        feedback=feedback, post=route.post, get=route.get, reopen=route.reopen if resume else None, on_lost=on_lost,
        on_resumed=on_resumed,
    )  # fmt: skip
    with ExitStack() as until_begun:
        until_begun.enter_context(observing(client, route.hear))
        async with running(client):
            until_begun.close()
            yield client
