"""A model's process that is none: it runs in the test's loop, and each word to and from it is encoded all the same.

So what crosses between two processes is tested in virtual time, by the tests of the model in one. What only a process has,
its death, is here `kill`. `inline_ranks` is the same for a model that has several.
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
    """See `execution.isolation.model_process.ModelProcess`; `model` is what it loads, on `host`.

    `serve` does what the server says, `heard` is a union of the words that it may say.
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
        """Nothing: it stays as it is, since a test may give what cannot be pickled."""
        self._given = given
        return b""

    def kill(self) -> None:
        """End it at once."""
        self._killed = True
        self._running.cancel()

    async def end(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    async def gone(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    def exit(self) -> str:
        """How it ended."""
        return "was killed" if self._killed else "ended"

    def silent(self) -> str:
        """There is but one."""
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
    """A model's ranks in the test's loop; see `execution.ranks.rank_group.Group`. A call is made by one after the other.

    There is no `torch.distributed` between them. `ranks[n].loaded` is the model of one, `ranks[n].kill()` its death.
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
    """There is no group to join or leave."""
