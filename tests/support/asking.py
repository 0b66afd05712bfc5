"""Single HTTP requests to a site, each on a connection of its own, from addresses that a trusted proxy names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from reactor_trio.edge.site import Site
from reactor_trio.transport import serve_http, wire_stream
from tests.support.transport_peers import Answer, answers, opening, read_all

#: The proxy that all connections come through; name it in `runtime.proxies`.
PROXY = "10.0.0.1"


@contextmanager
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it every memory connection comes from `PROXY`."""
    with monkeypatch.context() as patched:
        patched.setattr(wire_stream, "peer_of", lambda _stream: f"{PROXY}:80")
        yield


def plain(target: str, *lines: str, method: str = "GET") -> list[str]:
    """A request without a body."""
    return [f"{method} {target} HTTP/1.1", "host: 127.0.0.1", *lines]


def websocket(target: str, *lines: str) -> list[str]:
    """A handshake."""
    return opening(*lines, path=target, host="127.0.0.1").decode().split("\r\n")[:-2]


async def ask(
    site: Site, *requests: list[str], address: str = "198.51.100.1", head_only: bool = False
) -> list[Answer]:
    """The answers to requests that are sent at once on one connection; the last request closes it."""
    ours, theirs = trio.testing.memory_stream_pair()
    data = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_http(ours, site.serve, site.rules, closing=trio.Event()))
        for number, lines in enumerate(requests, 1):
            last = ["connection: close"] if number == len(requests) and "Connection: Upgrade" not in lines else []
            head = "\r\n".join([*lines, *last, f"x-forwarded-for: {address}", "", ""])
            await theirs.send_all(head.encode())
        if "Connection: Upgrade" in requests[-1]:
            data = bytes(await theirs.receive_some(100_000))
            if not data.startswith(b"HTTP/1.1 101"):
                data += await read_all(theirs)
            else:
                data = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        else:
            data = await read_all(theirs)
        await theirs.aclose()
    return answers(data, head_only=head_only)
