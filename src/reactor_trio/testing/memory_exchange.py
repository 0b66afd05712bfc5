"""Requests to a site in memory, without HTTP: the kit's `transport.Exchange`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import msgspec

from reactor_trio.edge.site import Site
from reactor_trio.transport import Conversation, Exchange, MessageChannel, PeerGone, Refusal, Refused, Request, Response
from reactor_trio.transport.refusal_bye import refuse_inside, wants_bye

HOST = "127.0.0.1"
#: The headers of a WebSocket handshake.
UPGRADE = {
    "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip


class MemoryExchange(Exchange):
    """A request whose head is known, and whose body is `body`."""

    def __init__(self, site: Site, request: Request, body: AsyncIterator[bytes] | None = None) -> None:
        super().__init__(cast("Any", None), request, site.rules, ExitStack(), bool)  # a site reads and sends nothing itself
        self._site = site
        self._body = body

    def refusing(self, refusal: Refusal) -> Response:
        """What a refused client gets."""
        self.counted.close()
        return Response.refusing(self.noted(refusal))

    def noted(self, refusal: Refusal) -> Refusal:
        """Have the site count a refusal. Return the one that the client gets."""
        return self._site.rules.refused(self.peer, self.address, refusal)

    async def read_body(self) -> bytes:
        """Read nothing: only uploads have a body here."""
        return b""

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the pieces of the body."""
        if self._body is not None:
            async for piece in self._body:
                yield piece


def answer_to(site: Site, request: Request) -> Response:
    """Return the answer to a plain request. It must not wait for anything."""
    exchange = MemoryExchange(site, request)
    try:
        site.serve(exchange).send(None)
    except StopIteration as done:
        response: Response = done.value
        return response
    except Refused as refused:
        return exchange.refusing(refused.refusal)
    raise RuntimeError(f"{request} waits")


async def admit(site: Site, request: Request) -> Response | Conversation:
    """Return the conversation that a WebSocket request opens, or the response that refuses it."""
    headers = (*request.headers, *UPGRADE.items())
    exchange = MemoryExchange(site, msgspec.structs.replace(request, headers=headers))
    try:
        opened = await site.serve(exchange)
    except Refused as refused:
        return exchange.refusing(refused.refusal)
    if isinstance(opened, Response):
        exchange.counted.close()
        return opened
    conversation = opened

    async def converse(messages: MessageChannel) -> None:
        with exchange.counted, suppress(PeerGone):
            try:
                await conversation(messages)
            except Refused as refused:
                bye = wants_bye(exchange.request)
                await refuse_inside(messages, exchange.noted(refused.refusal), bye=bye)

    return converse


async def respond(site: Site, request: Request, body: AsyncIterator[bytes] | None = None) -> Response:
    """Return the answer to a request, which may wait, and have a body."""
    exchange = MemoryExchange(site, request, body)
    try:
        response = await site.serve(exchange)
    except Refused as refused:
        return exchange.refusing(refused.refusal)
    assert isinstance(response, Response)
    return response


def request_to(url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Request:
    """A plain request for `url`."""
    parts = urlsplit(url)
    query = dict(reversed(parse_qsl(parts.query, keep_blank_values=True)))  # of a repeated name the first value counts
    given = tuple((key.lower(), value) for key, value in (headers or {}).items())
    return Request(
        method=method, path=parts.path, query=query, host=HOST, authority=HOST, headers=given, peer="memory"
    )
