"""The ranks as the server sees them: one process, with one link.

What the server says goes to rank 0; that there is a model to load, and whether its loop still turns, is for all. What all
must have done counts when the last has. The first rank whose process ends, that says that it cannot go on, or that the ranks
are apart, ends all of them at once; it is told by the kernel (a pidfd), in less than a millisecond.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import msgspec
import trio

from reactor_trio.errors import ManifestError
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import Given
from reactor_trio.execution.isolation.model_process import ModelProcess, Subprocess, open_subprocess
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.ranks.rank_messages import Desynced, FromRank
from reactor_trio.execution.ranks.torch_group import environment

#: seconds in which the last words of a process that has ended are heard
LAST_WORDS = 0.1


class RankProcess(ModelProcess, Protocol):
    """The process of one rank."""

    async def gone(self) -> None:
        """Return when it has ended, however that came."""


class Group:
    """See `ModelProcess`; `ranks`: the processes, from 0 on."""

    def __init__(self, ranks: Sequence[RankProcess]) -> None:
        self.ranks = ranks
        self._first: int | None = None  # to end
        self._apart: str | None = None
        self._pinged = 0
        self._ponged = [0] * len(ranks)
        self._loaded: list[ipc_messages.Loaded | None] = [None] * len(ranks)
        self._refused = False
        self.link: Link = self
        self.path = ranks[0].path

    # ---- as the process -----------------------------------------------------------------------------------------------

    def pack(self, given: Given) -> bytes:
        """See `ModelProcess`."""
        packed, *_ = [rank.pack(given) for rank in self.ranks]
        return packed

    def kill(self) -> None:
        """See `ModelProcess`."""
        for rank in self.ranks:
            rank.kill()

    async def end(self) -> None:
        """See `ModelProcess`."""
        async with trio.open_nursery() as nursery:
            for rank in self.ranks:
                nursery.start_soon(rank.end)

    def exit(self) -> str:
        """See `ModelProcess`."""
        if self._apart is not None:
            return f"group is out of step: {self._apart}"
        first = self._first or 0
        return f"of rank {first} {self.ranks[first].exit()}"

    def silent(self) -> str:
        """See `ModelProcess`."""
        late = [str(rank) for rank, number in enumerate(self._ponged) if number < self._pinged]
        return f"of rank {' and '.join(late)} " if late else ""

    # ---- as its link --------------------------------------------------------------------------------------------------

    def send(self, word: object, descriptor: int | None = None) -> None:
        """See `Link`."""
        if isinstance(word, ipc_messages.Ping):
            self._pinged = word.number
        for_all = isinstance(word, (ipc_messages.Load, ipc_messages.Ping, ipc_messages.ShowStack))
        for rank in self.ranks if for_all else self.ranks[:1]:
            rank.link.send(word, descriptor)

    async def run(self) -> None:
        """See `Link`."""
        async with trio.open_nursery() as nursery:
            for rank in self.ranks:
                nursery.start_soon(rank.link.run)

    async def hear(self, take: Callable[[Any, int | None], object]) -> None:
        """See `Link`; returns when one rank is gone, and the others are killed."""
        async with trio.open_nursery() as nursery:
            for number in range(len(self.ranks)):
                nursery.start_soon(self._hear_rank, number, take, nursery.cancel_scope)
        for number, rank in enumerate(self.ranks):
            if number != self._first:
                rank.kill()

    def close(self) -> None:
        """See `Link`."""
        for rank in self.ranks:
            rank.link.close()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _hear_rank(self, number: int, take: Callable[[Any, int | None], object], ranks: trio.CancelScope) -> None:
        rank = self.ranks[number]

        async def gone() -> None:
            await rank.gone()
            self._ends(number)
            nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS

        async with trio.open_nursery() as nursery:
            nursery.start_soon(gone)
            await rank.link.hear(lambda word, descriptor: self._take(number, word, descriptor, take))
            self._ends(number)
            nursery.cancel_scope.cancel()
        ranks.cancel()

    def _ends(self, number: int) -> None:
        if self._first is None:
            self._first = number

    def _take(self, number: int, word: Any, descriptor: int | None, take: Callable[[Any, int | None], object]) -> None:
        match word:
            case Desynced(text):
                self._apart = self._apart or text
                self.kill()
            case ipc_messages.Broken():
                take(word, None)
                self.kill()
            case ipc_messages.Pong(ping):
                self._ponged[number] = ping
                if min(self._ponged) == ping:
                    take(word, None)
            case ipc_messages.Loaded():
                self._loaded[number] = word
                if all(self._loaded):
                    take(self._loaded[0], None)
            case ipc_messages.NotLoaded():
                if not self._refused:  # one mistake is often that of all ranks
                    self._refused = True
                    take(word, None)
            case ipc_messages.Logged() if number:
                take(msgspec.structs.replace(word, message=f"rank {number}: {word.message}"), None)
            case _:
                take(word, descriptor)


async def open_ranks(ranks: int) -> ModelProcess:
    """Start them. Raises ManifestError where the system has not what it takes."""
    if ranks == 1:
        return await open_subprocess()
    await trio.lowlevel.checkpoint()
    if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
        raise ManifestError(f"{ranks} ranks need Linux; set runtime.ranks to 1")
    with ExitStack() as ours:
        store = os.memfd_create("reactor-ranks")
        ours.callback(os.close, store)
        port = _free_port()
        pairs = [socket.socketpair() for _ in range(1, ranks)]
        for pair in pairs:
            for end in pair:
                ours.enter_context(end)
        started: list[Subprocess] = []
        try:
            for rank in range(ranks):
                links = [mine.fileno() for mine, _ in pairs] if rank == 0 else [pairs[rank - 1][1].fileno()]
                started.append(Subprocess(
                    "reactor_trio.execution.ranks.rank_main",
                    descriptors=[store, *links],
                    arguments=[str(store), *map(str, links)],
                    environment=environment(rank, ranks, port),
                    heard=FromRank,
                ))  # fmt: skip
        except BaseException:
            for process in started:
                process.kill()
                await process.end()
            raise
    return Group(started)


def _free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
