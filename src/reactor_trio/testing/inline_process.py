"""A stand-in for a model's process: it runs in the test's loop, and encodes every IPC message as a real process does.

So the tests of a model in one process also test, in virtual time, everything that crosses between two. `kill` stands for the
death of the process. `inline_ranks` does the same for a model with several ranks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import Given, work
from reactor_trio.execution.isolation.process_link import Link, memory_links
from reactor_trio.execution.loading import LoadedModel
from reactor_trio.execution.ranks.rank_group import Group
from reactor_trio.execution.ranks.rank_messages import Done, FromLead, FromRank
from reactor_trio.execution.ranks.rank_worker import follow, lead
from reactor_trio.interface.model import Model


class InlineProcess:
    """A `execution.isolation.model_process.ModelProcess` that loads `model` on `host`.

    `serve` carries out the server's messages; `heard` is the union of the messages that it may send.
    """

    def __init__(
        self,
        host: ModelHost,
        nursery: trio.Nursery,
        model: type[Model],
        serve: Callable[..., Awaitable[None]] = work,
        heard: Any = ipc_messages.FromModel,
    ) -> None:
        ours, theirs = memory_links(heard, ipc_messages.ToModel)
        self._serve = serve
        self.link: Link = ours
        self.path: list[str] = []
        self._theirs = theirs
        self._host = host
        self._model = model
        self._running = trio.CancelScope()
        self._ended = trio.Event()
        self._killed = False
        self._given: Given | None = None
        #: the model instance, once it is loaded
        self.loaded: Model | None = None
        nursery.start_soon(self._run)

    def pack(self, given: Given) -> bytes:
        """Keep `given` as it is, since a test may pass objects that cannot be pickled."""
        self._given = given
        return b""

    def kill(self) -> None:
        """End the process at once."""
        self._killed = True
        self._running.cancel()

    async def end(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    async def gone(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    def exit(self) -> str:
        """Return how the process ended."""
        return "was killed" if self._killed else "ended"

    def silent(self) -> str:
        """Return an empty text: there is only one rank."""
        return ""

    def _unpack(self, _data: bytes) -> Given:
        assert self._given is not None
        return self._given

    def _is_loaded(self, loaded: LoadedModel | Model) -> None:
        self.loaded = loaded.model if isinstance(loaded, LoadedModel) else loaded

    async def _run(self) -> None:
        try:
            with self._running:
                await self._serve(
                    self._theirs, self._host, find=lambda _path: self._model, unpack=self._unpack, loaded=self._is_loaded
                )
        finally:
            self._theirs.close()
            self._ended.set()


class InlineRanks(Group):
    """A model's ranks in the test's loop; see `execution.ranks.rank_group.Group`. The ranks make a call one by one.

    There is no `torch.distributed` between them. `ranks[n].loaded` is the model of a rank; `ranks[n].kill()` ends the rank.
    """

    ranks: Sequence[InlineProcess]

    @property
    def loaded(self) -> Model | None:
        """The model of rank 0."""
        return self.ranks[0].loaded


async def inline_ranks(
    host: ModelHost, nursery: trio.Nursery, model: type[Model], ranks: int
) -> InlineProcess | InlineRanks:
    """As `execution.ranks.rank_group.open_ranks`: an `InlineProcess` for each rank, in a group if there are several."""
    await trio.lowlevel.checkpoint()
    if ranks == 1:
        return InlineProcess(host, nursery, model)
    pairs = [memory_links(Done, FromLead) for _ in range(1, ranks)]
    first = partial(lead, others=[mine for mine, _ in pairs], join=_nothing, leave=_nothing, at_once=False)
    started = [InlineProcess(host, nursery, model, first, FromRank)]
    for rank, (_, theirs) in enumerate(pairs, start=1):
        serve = partial(follow, rank=rank, world_size=ranks, first=theirs, join=_nothing, leave=_nothing)
        started.append(InlineProcess(host, nursery, model, serve, FromRank))
    return InlineRanks(started)


def _nothing() -> None:
    """Do nothing: there is no process group to join or leave."""
