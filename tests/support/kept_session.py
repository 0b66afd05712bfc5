"""A server in memory that keeps its one session while its client has no connection, as `runtime.resume_window` makes it.

It applies commands, numbers what it says, and says again what a client that comes back has not seen. A link can be cut at
any point: what is under way in either direction is lost, and the client learns it by the end of what it receives, while what
it still sends goes nowhere without a word.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from reactor_trio.client import Client, TransportClosed
from tests.support.client_doubles import VIDEO, packet, welcome


class KeptTransport:
    """One connection, the client's end."""

    def __init__(self, session: KeptSession, name: str = "") -> None:
        self._session = session
        self.name = name
        self.cut_off = False
        self.closed_with: int | None = None
        self.let_go = False
        self._inbox: deque[Any] = deque()
        self._changed = anyio.Event()

    def deliver(self, message: str | bytes) -> None:
        if not self.cut_off:
            self._put(message)

    def cut(self, noticed: bool = True) -> None:
        """Break the link: nothing passes any more, and messages under way to the client are lost."""
        self.cut_off = True
        self._inbox.clear()
        if noticed:
            self.notice()

    def notice(self, code: int = 1006) -> None:
        """Let the client see that the connection is over."""
        self._put(TransportClosed(code))

    async def receive(self) -> str | bytes:
        await anyio.lowlevel.checkpoint()
        while not self._inbox:
            self._changed = anyio.Event()
            await self._changed.wait()
        if isinstance(self._inbox[0], TransportClosed):
            raise self._inbox[0]
        return self._inbox.popleft()

    async def send(self, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closed_with is not None:
            raise TransportClosed(1006)
        if not self.cut_off:
            self._session.read(text)

    async def send_bytes(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closed_with is not None:
            raise TransportClosed(1006)
        if not self.cut_off:
            self._session.packets.append(data)

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        if self.closed_with is None:
            self.closed_with = code
            if code == 1000 and not self.cut_off:
                self._session.left = True
            self.notice(1000)
        self.let_go = True
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()

    def _put(self, message: Any) -> None:
        self._inbox.append(message)
        self._changed.set()


class KeptSession:
    """The session, and all its connections.

    Attributes:
        applied: the commands' data, in the order in which they were read.
        told: the runtime's messages that were read.
        hook: called after each text that was read or said, to cut the link there.
        answers: whether a command is answered as soon as it is read.
        forgotten: messages, the oldest, that it cannot say again.
        on_reopen: what a try to come back meets instead of the session: raises, or returns a transport.
    """

    def __init__(self, *tracks: dict[str, Any], window: float | None = 10.0, token: str | None = "resume-me") -> None:
        self.data = welcome(*tracks) | {"resume_token": token, "resume_window": window}
        self.applied: list[Any] = []
        self.told: list[Any] = []
        self.packets: list[bytes] = []
        self.said: list[str] = []
        self.tries: list[tuple[str, int, Any]] = []
        self.connections: list[KeptTransport] = []
        self.others: list[KeptTransport] = []
        self.answers = True
        self.left = False
        self.forgotten = 0
        self.hook: Callable[[str], None] = lambda _what: None
        self.on_reopen: Callable[[int], KeptTransport | None] = lambda _number: None
        self._unanswered: list[int] = []
        self.newest_seq = -1

    @property
    def link(self) -> KeptTransport:
        return self.connections[-1]

    def open(self) -> KeptTransport:
        """The first connection."""
        transport = KeptTransport(self, "first")
        self.connections.append(transport)
        self.said.append(json.dumps({"type": "reactor.welcome", "data": self.data, "n": 1}))
        transport.deliver(self.said[0])
        return transport

    async def reopen(self, token: str, after: int, video: Any) -> KeptTransport:
        """A `Reopen`."""
        await anyio.lowlevel.checkpoint()
        self.tries.append((token, after, video))
        if (other := self.on_reopen(len(self.tries))) is not None:
            self.others.append(other)
            return other
        for before in self.connections:
            before.cut_off = True  # a new connection replaces the old one
        transport = KeptTransport(self, f"try {len(self.tries)}")
        self.connections.append(transport)
        missed = self.said[max(after, self.forgotten) :]
        lost = max(0, self.forgotten - after)
        resumption = {"resumed": True, "received": len(self.applied), "missed": lost}
        transport.deliver(json.dumps({"type": "reactor.welcome", "data": self.data | resumption, "n": 1}))
        for text in missed:
            transport.deliver(text)
        if self.newest_seq >= 0:
            transport.deliver(packet(self.newest_seq))
        return transport

    def read(self, text: str) -> None:
        message = json.loads(text)
        if message["type"].startswith("reactor."):
            self.told.append(message)
        else:
            self.applied.append(message["data"])
            self._unanswered.append(message["id"])
            self.hook("read")
            if self.answers:
                self.answer()

    def answer(self) -> None:
        """Answer the unanswered commands."""
        for number in self._unanswered:
            self.say("reactor.ack", {"step": len(self.applied), "reply": number}, id=number)
        self._unanswered.clear()

    def say(self, type_: str, data: Any = None, **top: Any) -> None:
        text = json.dumps({"type": type_, "data": data or {}, "n": len(self.said) + 1, **top})
        self.said.append(text)
        self.link.deliver(text)
        self.hook("said")

    def frame(self, seq: int) -> None:
        self.newest_seq = seq
        self.link.deliver(packet(seq))

    def client(self, **options: Any) -> Client:
        return Client(self.open(), reopen=self.reopen, **options)

    def assert_let_go(self) -> None:
        assert [connection.name for connection in (*self.connections, *self.others) if not connection.let_go] == []


def other_transport(*messages: dict[str, Any] | TransportClosed) -> KeptTransport:
    """Return a connection on which a server sends these messages."""
    transport = KeptTransport(KeptSession(), "other")
    for message in messages:
        transport._put(message if isinstance(message, TransportClosed) else json.dumps(message))
    return transport


__all__ = ["VIDEO", "KeptSession", "KeptTransport", "other_transport"]
