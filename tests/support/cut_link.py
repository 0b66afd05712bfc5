"""A TCP relay before a server whose link can be dropped: what is under way is lost, and nobody gets through.

It runs in a thread of its own, for tests that block and for loops of any kind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import trio

PIECE = 64 * 1024


class CutPoint(NamedTuple):
    """Where a connection breaks: after so many bytes to the server, or from it; None: never."""

    up: int | None = None
    down: int | None = None


class CutLink:
    """One address, `port`; every connection to it is relayed to the server.

    `drop` and `restore` may be called from any thread. `hole`: a dropped link swallows what is sent into it, new connections
    too, and they break only when it is restored; else they break at once and new ones are refused at once.

    `idle` is set while no connection is relayed: a browser complains of one that is not closed before the link goes.

    With `points` each connection that is used breaks at the next of them; `spent` is set when the last one has broken.
    """

    def __init__(self, server_port: int, points: list[CutPoint] | None = None) -> None:
        self.port = 0
        self.hole = False
        self.connections = 0
        self.spent = threading.Event()
        self.idle = threading.Event()
        self._points = iter(points or [])
        self._unspent = len(points or [])
        self._server_port = server_port
        self._down = False
        self._streams: set[trio.SocketStream] = set()
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken
        self._scope = trio.CancelScope()
        self._changed = trio.Event()

    def drop(self) -> None:
        """Nothing goes through from now on."""
        trio.from_thread.run_sync(self._set, True, trio_token=self._token)

    def restore(self) -> None:
        """New connections go through; those of before are gone."""
        trio.from_thread.run_sync(self._set, False, trio_token=self._token)

    def _set(self, down: bool) -> None:
        self._down = down
        self._changed.set()
        self._changed = trio.Event()
        if not (down and self.hole):
            self._break()

    def _break(self) -> None:
        for stream in self._streams:
            reset(stream)
        self._streams.clear()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.port = listener.socket.getsockname()[1]
            self._ready.set()
            await trio.serve_listeners(self._relay, [listener])

    async def _relay(self, client: trio.SocketStream) -> None:
        if self._down and not self.hole:
            reset(client)
            return
        self._streams.add(client)
        if self._down:
            await self._changed.wait()
            return
        self.connections += 1
        self.idle.clear()
        left: dict[str, int | None] = {}
        server = await trio.open_tcp_stream("127.0.0.1", self._server_port)
        self._streams.add(server)
        try:
            async with trio.open_nursery() as both:
                both.start_soon(self._pump, client, server, both.cancel_scope, left, "up")
                both.start_soon(self._pump, server, client, both.cancel_scope, left, "down")
        finally:
            self._streams -= {client, server}
            if not self._streams:
                self.idle.set()
            for stream in (client, server):
                stream.socket.close()

    async def _pump(
        self,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        both: trio.CancelScope,
        left: dict[str, int | None],
        way: str,
    ) -> None:
        try:
            while data := await source.receive_some(PIECE):
                if not left:  # not before: browsers also open connections that they never use
                    left |= next(self._points, CutPoint())._asdict()
                most = left[way]
                if not self._down:
                    await sink.send_all(data[:most])
                if most is not None and len(data) >= most:
                    self._spend(source, sink)
                    break
                left[way] = most and most - len(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        if not (self._down and self.hole):
            both.cancel()

    def _spend(self, *streams: trio.SocketStream) -> None:
        """Break a connection at its point."""
        for stream in streams:
            reset(stream)
        self._unspent -= 1
        if self._unspent == 0:
            self.spent.set()

    def _stop(self) -> None:
        self._break()
        self._scope.cancel()


def reset(stream: trio.SocketStream) -> None:
    """Break a connection so that the other end notices at once."""
    stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    stream.socket.close()


def port_of(url: str) -> int:
    """The port of a server's address."""
    return int(url.rstrip("/").rpartition(":")[2])


@contextmanager
def cut_link(server_port: int, points: list[CutPoint] | None = None) -> Iterator[CutLink]:
    """A relay to that port of this machine."""
    link = CutLink(server_port, points)
    thread = threading.Thread(target=trio.run, args=(link._run,), name="cut link")
    thread.start()
    link._ready.wait()
    try:
        yield link
    finally:
        trio.from_thread.run_sync(link._stop, trio_token=link._token)
        thread.join()
