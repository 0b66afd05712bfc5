"""The work of a rank's process: rank 0 is an isolated worker that leads, each other rank follows."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import IMPORTED, ProcessWorker, WorkerModel, work
from reactor_trio.execution.isolation.process_link import Handle, IpcLink
from reactor_trio.execution.isolation.shared_frames import SharedFrames
from reactor_trio.execution.loading import load_model
from reactor_trio.execution.ranks.follower import Follower
from reactor_trio.execution.ranks.follower_binding import FollowerBinding
from reactor_trio.execution.ranks.leader import Leader
from reactor_trio.execution.ranks.leader_binding import LeaderBinding
from reactor_trio.execution.ranks.leading_session import LeadingSessionRunner
from reactor_trio.execution.ranks.rank_count import refuse_several_sessions
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.distributed import DistributedPipeline
from reactor_trio.interface.model import Model, ModelBinding
from reactor_trio.pacing.cadence import DEFAULT_FPS

log = logging.getLogger("reactor_trio.model")


async def lead(
    link: IpcLink,
    host: ModelHost,
    frames: SharedFrames | None = None,
    *,
    others: Sequence[IpcLink],
    join: Callable[[], object],
    leave: Callable[[], object],
    source: WorkerModel = IMPORTED,
) -> None:
    """Serve the server at the other end of `link` as rank 0; see `work`.

    Args:
        others: links to the ranks from 1 on.
        join: makes this process one of the process group; called on the model thread before the load.
        leave: takes the process out of the group.
    """
    leader = Leader(others, host, link.send)

    async def load(cls: type[Model], config: dict[str, Any], host: ModelHost, settings: Settings, telemetry: Any) -> Any:
        join()
        leader.patience = settings.step_timeout or float("inf")
        loaded = await load_model(cls, config, host, settings, telemetry, partial(_bind_leader, leader))
        refuse_several_sessions(cls.__qualname__, loaded.max_sessions)
        return msgspec.structs.replace(loaded, runner_type=partial(LeadingSessionRunner, leader))

    async def until_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            host.post(leader.stop)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run, leader.run)
        nursery.start_soon(until_cancelled)
        try:
            await work(link, host, frames, source=source, load=load)
        finally:
            nursery.cancel_scope.cancel()
    leave()


def _bind_leader(leader: Leader, model: Model) -> None:
    binding = model._reactor_binding
    assert isinstance(binding, SessionBinding)
    _bind(model, LeaderBinding(binding, leader.answer), 0, leader.ranks)


def _bind(model: Model, binding: ModelBinding, rank: int, world_size: int) -> None:
    assert isinstance(model, DistributedPipeline)
    model._reactor_binding = binding
    model.rank, model.world_size = rank, world_size


async def follow(
    link: IpcLink,
    host: ModelHost,
    *,
    rank: int,
    world_size: int,
    first: IpcLink,
    join: Callable[[], object],
    leave: Callable[[], object],
    source: WorkerModel = IMPORTED,
) -> None:
    """Follow rank 0, at the other end of `first`, until it or the server is gone. For the rest, see `lead` and `work`."""

    async def until_gone(other: IpcLink, handle: Handle) -> None:
        await other.receive(handle)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        follower = Follower(rank, first, host, link.send)
        bind = partial(_bind, rank=rank, world_size=world_size)
        worker = _FollowerWorker(link, host, nursery, source, follower, bind, join)
        nursery.start_soon(link.run)
        nursery.start_soon(until_gone, link, worker.receive)
        nursery.start_soon(until_gone, first, follower.receive)
    first.close()
    leave()


@dataclass(eq=False)
class _FollowerWorker(ProcessWorker):
    follower: Follower
    bind: Callable[[Model, ModelBinding], None]
    join: Callable[[], object]

    def receive(self, message: Any, descriptor: int | None) -> None:
        if isinstance(message, ipc_messages.LogStack):
            log.error("it is here:\n%s", self.host.stack())
        super().receive(message, descriptor)

    async def load(self, path: str, config: dict[str, Any], settings: Settings) -> int:
        self.join()
        cls = self.source.find(path)
        assert issubclass(cls, DistributedPipeline)
        self.model, self.declaration = cls(), declaration_of(cls)
        fps = settings.fps or self.model.fps or DEFAULT_FPS
        self.bind(self.model, FollowerBinding(self.declaration, self.follower, fps))
        waits: Any = self.model.load(config)  # type: ignore[func-returns-value]
        if inspect.isawaitable(waits):
            await waits
        self.source.model_loaded(self.model)
        return 1

    async def serve(self) -> None:
        await self.host.run(self.follower.run, self.model, self.declaration)
