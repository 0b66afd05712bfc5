"""The ranks of a model as the server sees them: one process with one link.

Messages of the server go to rank 0; `LoadModel`, `Ping` and `LogStack` go to all ranks. The server gets `ModelLoaded` and
`Pong` when the last rank has sent it, and the `LoadReported` of the rank that is furthest behind. The first rank that ends,
reports `ModelBroken` or reports `ModelStuck` ends all ranks at once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.crossing.messages import LogStack
from reactor_trio.crossing.socket_link import Handle, IpcLink
from reactor_trio.memory.shared_mapping import new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import Given
from reactor_trio.placement.isolation.model_process import OneProcess, Subprocess, receive_to_end
from reactor_trio.placement.ranks.torch_group import environment

RANK_MAIN = "reactor_trio.placement.ranks.rank_worker"
#: the messages of the server that every rank gets; others are for rank 0
_FOR_ALL = (ipc_messages.LoadModel, ipc_messages.Ping, LogStack, ipc_messages.FreeMemory)


class RankGroup:
    """A `ModelProcess` and its `IpcLink` in one; `ranks` are the processes, from rank 0 on."""

    def __init__(self, ranks: Sequence[OneProcess]) -> None:
        self.ranks = ranks
        self.memory = ranks[0].memory
        self.link: IpcLink = self
        self.wire = ranks[0].link.wire
        self._first_to_end: int | None = None
        self._pinged = 0
        self._ponged = [0] * len(ranks)
        self._loaded: dict[int, ipc_messages.ModelLoaded] = {}
        self._load_failed = False
        self._reported: dict[int, ipc_messages.LoadReported] = {}

    # ---- as the process -----------------------------------------------------------------------------------------------

    def pack(self, given: Given) -> bytes:
        """Pack it once for all: every rank gets the same."""
        packed, *_ = [rank.pack(given) for rank in self.ranks]
        return packed

    def kill(self) -> None:
        """Kill every rank."""
        for rank in self.ranks:
            rank.kill()

    async def end(self, handle: Handle = lambda _message, _session: None) -> None:
        """Return when every rank has ended."""
        async with trio.open_nursery() as nursery:
            for number, rank in enumerate(self.ranks):
                nursery.start_soon(rank.end, partial(self._handle, number, handle=handle))

    def exit(self) -> str:
        """Name the rank that ended first, and say how."""
        first = self._first_to_end or 0
        return f"of rank {first} {self.ranks[first].exit()}"

    def last_words(self) -> str:
        """The last words of each rank that has some."""
        each = [(number, rank.last_words()) for number, rank in enumerate(self.ranks)]
        return "\n".join(f"rank {number}:\n{words}" for number, words in each if words)

    def silent(self) -> str:
        """Name the ranks that have not answered the newest ping."""
        late = [str(rank) for rank, number in enumerate(self._ponged) if number < self._pinged]
        return f"of rank {' and '.join(late)} " if late else ""

    # ---- as its link --------------------------------------------------------------------------------------------------

    def send(self, message: object, session: int = 0) -> None:
        """Send the message to every rank, or to rank 0 alone (`_FOR_ALL`)."""
        if isinstance(message, ipc_messages.Ping):
            self._pinged = message.number
        for rank in self.ranks if isinstance(message, _FOR_ALL) else self.ranks[:1]:
            rank.link.send(message, session)

    async def run(self) -> None:
        """Task: write what could not be sent at once, for every rank."""
        async with trio.open_nursery() as nursery:
            for rank in self.ranks:
                nursery.start_soon(rank.link.run)

    async def receive(self, handle: Handle) -> None:
        """Give `handle` what one process would send. Returns when one rank is gone, after it has killed the others."""
        async with trio.open_nursery() as nursery:
            for number in range(len(self.ranks)):
                nursery.start_soon(self._receive_rank, number, handle, nursery.cancel_scope)
        for number, rank in enumerate(self.ranks):
            if number != self._first_to_end:
                rank.kill()

    def close(self) -> None:
        """Close the link to every rank."""
        for rank in self.ranks:
            rank.link.close()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _receive_rank(self, number: int, handle: Handle, ranks: trio.CancelScope) -> None:
        def take(message: Any, session: int) -> None:
            self._handle(number, message, session, handle)

        await receive_to_end(self.ranks[number], take, lambda: self._ends(number))
        ranks.cancel()

    def _ends(self, number: int) -> None:
        if self._first_to_end is None:
            self._first_to_end = number

    def _handle(self, number: int, message: Any, session: int, handle: Handle) -> None:
        match message:
            case ipc_messages.ModelBroken() | ipc_messages.ModelStuck():
                self.kill()
            case ipc_messages.Pong(ping):
                self._ponged[number] = ping
                if min(self._ponged) < ping:
                    return
            case ipc_messages.ModelLoaded():
                self._loaded[number] = message
                if len(self._loaded) < len(self.ranks):
                    return
                message = _of_all(self._loaded)
            case ipc_messages.LoadReported():
                self._reported[number] = message
                message = min(self._reported.values(), key=lambda one: 0.0 if one.fraction is None else one.fraction)
            case ipc_messages.LoadFailed():
                if self._load_failed:  # one mistake is often that of all ranks
                    return
                self._load_failed = True
            case ipc_messages.LogLine() if number:
                message = msgspec.structs.replace(message, message=f"rank {number}: {message.message}")
        handle(message, session)


async def open_ranks(ranks: int) -> RankGroup:
    """Start the processes of so many ranks, two at least. Raises OSError if one cannot be started."""
    with ExitStack() as ours:
        memory, frames = ours.enter_context(new_shared_mapping("reactor-frames"))
        started: list[Subprocess] = []
        store = os.memfd_create("reactor-ranks")
        ours.callback(os.close, store)
        port = _free_port()
        pairs = [[ours.enter_context(end) for end in socket.socketpair()] for _ in range(1, ranks)]
        links = [[mine for mine, _ in pairs], *([theirs] for _, theirs in pairs)]
        try:
            for rank in range(ranks):
                own = [frames, store, *(end.fileno() for end in links[rank])]
                started.append(Subprocess(memory, own, RANK_MAIN, environment(rank, ranks, port)))
        except BaseException:
            for process in started:
                process.kill()
            with trio.CancelScope(shield=True):  # they are killed, so this takes no time
                for process in started:
                    await process.end()
            raise
    return RankGroup(started)


def _of_all(loaded: Mapping[int, ipc_messages.ModelLoaded]) -> ipc_messages.ModelLoaded:
    """What rank 0 says, with the weights of all ranks: each may have a part of them."""
    each = [loaded[rank].weights for rank in range(len(loaded))]
    return msgspec.structs.replace(loaded[0], weights=each[0] if len(set(each)) == 1 else " ".join(each))


def _free_port() -> int:
    """A port of the loopback interface that no program uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
