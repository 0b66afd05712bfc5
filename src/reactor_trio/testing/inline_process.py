"""A stand-in for a model's process: it runs in the test's loop, and encodes every IPC message as a real process does.

So the tests of a model in one process also test, in virtual time, everything that crosses between two. `kill` stands for the
death of the process. `inline_ranks` does the same for a model with several ranks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.crossing.socket_link import Handle, IpcLink
from reactor_trio.interface.model import Model
from reactor_trio.memory.shared_mapping import SharedMapping, new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import Given, WorkerModel, work
from reactor_trio.placement.isolation.model_process import receive_to_end
from reactor_trio.placement.isolation.shared_frames import MODEL, FrameExchange
from reactor_trio.placement.ranks.rank_group import RankGroup
from reactor_trio.placement.ranks.rank_messages import FromLeader, ToLeader
from reactor_trio.placement.ranks.rank_worker import follow, lead
from reactor_trio.testing.memory_ipc_link import LeaderLink, memory_links


class InlineProcess(WorkerModel):
    """A `placement.isolation.model_process.ModelProcess` that loads `model` on `host`.

    `serve` is what runs in the process. With `held_open` the link's other end outlives the process, as if a child of the
    process had it.
    """

    held_open = False

    def __init__(
        self,
        host: ModelHost,
        nursery: trio.Nursery,
        model: type[Model],
        serve: Callable[..., Awaitable[None]] = work,
    ) -> None:
        ours, theirs = memory_links(ipc_messages.FromProcess, ipc_messages.ToProcess)
        with new_shared_mapping("reactor-frames") as (self.memory, descriptor):
            self._frames = FrameExchange(SharedMapping(descriptor), MODEL, theirs.send)
        theirs.wire.share(self._frames)
        self._serve = serve
        self.link: IpcLink = ours
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

    async def end(self, handle: Handle = lambda _message, _session: None) -> None:
        """Wait for its end. It logs in this process, so it has no last messages that matter."""
        await self.gone()

    async def gone(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    async def receive(self, handle: Handle) -> None:
        """Give its messages to `handle` until its end."""
        await receive_to_end(self, handle)

    def exit(self) -> str:
        """Return how the process ended."""
        return "was killed" if self._killed else "ended"

    def last_words(self) -> str:
        """Return an empty text: what raises here raises in the test."""
        return ""

    def silent(self) -> str:
        """Return an empty text: there is only one rank."""
        return ""

    def find(self, path: str) -> type[Model]:
        """The test's model, wherever it is."""
        return self._model

    def unpack(self, data: bytes) -> Given:
        """What was given to `pack`."""
        assert self._given is not None
        return self._given

    def model_loaded(self, model: Model) -> None:
        """Remember the instance."""
        self.loaded = model

    async def _run(self) -> None:
        try:
            with self._running:
                await self._serve(self._theirs, self._host, self._frames, source=self)
        finally:
            self._frames.close()
            if not self.held_open:
                self._theirs.close()
            self._ended.set()


class InlineRanks(RankGroup):
    """A model's ranks in the test's loop; see `placement.ranks.rank_group.RankGroup`. The ranks make a call one by one.

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
    """As `placement.processes.open_processes`: an `InlineProcess` for each rank, in a group if there are several."""
    await trio.lowlevel.checkpoint()
    if ranks == 1:
        return InlineProcess(host, nursery, model)
    pairs = [memory_links(ToLeader, FromLeader, LeaderLink) for _ in range(1, ranks)]
    first = partial(lead, others=[mine for mine, _ in pairs])
    started = [InlineProcess(host, nursery, model, first)]
    for rank, (_, theirs) in enumerate(pairs, start=1):
        serve = partial(follow, rank=rank, world_size=ranks, first=theirs)
        started.append(InlineProcess(host, nursery, model, serve))
    return InlineRanks(started)
