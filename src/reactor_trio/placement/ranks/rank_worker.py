"""The work of a rank's process: rank 0 is an isolated worker that leads, each other rank follows.

It is also the entry point: `python -m reactor_trio.placement.ranks.rank_worker SERVER AHEAD WORDS MEMORY STORE LINK...`.
Rank 0 has a link to each other rank, and each other rank has one to rank 0. The environment gives the number of this rank.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.messages import LogStack
from reactor_trio.crossing.socket_link import Handle, IpcLink, MessageLink
from reactor_trio.execution.bare_binding import BareBinding
from reactor_trio.interface.distributed import DistributedPipeline
from reactor_trio.interface.model import Model
from reactor_trio.interface.progress import reported_load
from reactor_trio.kinds.kind import call_load
from reactor_trio.kinds.model_checks import CheckedModel, fps_before_load, refuse_several_sessions
from reactor_trio.media import keep_frames_in
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import IMPORTED, ProcessWorker, ToServer, WorkerModel, work
from reactor_trio.placement.isolation.process_main import main
from reactor_trio.placement.isolation.shared_frames import FrameExchange
from reactor_trio.placement.loading import LoadedModel, load_model, world_weights
from reactor_trio.placement.ranks import torch_group
from reactor_trio.placement.ranks.follower import Follower
from reactor_trio.placement.ranks.leader import Leader
from reactor_trio.placement.ranks.leading_performer import LeadingPerformer
from reactor_trio.placement.ranks.rank_binding import FollowerAnswers, LeaderAnswers, RankAnswers, RankBinding
from reactor_trio.placement.ranks.rank_link import RankLink
from reactor_trio.placement.ranks.rank_messages import FromLeader, ToLeader
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.model")


async def lead(
    link: IpcLink,
    host: ModelHost,
    frames: FrameExchange,
    *,
    others: Sequence[MessageLink],
    join: Callable[[], object] = lambda: None,
    source: WorkerModel = IMPORTED,
) -> None:
    """Serve the server at the other end of `link` as rank 0; see `work`.

    Args:
        others: links to the ranks from 1 on.
        join: makes this process one of the process group; called on the model thread before the load.
    """
    leader = Leader(others, host, link.send)

    async def load(
        checked: CheckedModel, config: dict[str, Any], host: ModelHost, settings: Settings, telemetry: Telemetry
    ) -> LoadedModel:
        join()
        leader.step_timeout = settings.step_timeout or math.inf
        leader.first_step_timeout = settings.first_step_timeout or math.inf
        bind = partial(_bind, answers=LeaderAnswers(leader.answer), rank=0, world_size=1 + len(others))
        worlds = msgspec.structs.replace(settings.worlds, ring=settings.worlds.ring // (1 + len(others)))  # each has a part
        settings = msgspec.structs.replace(settings, worlds=worlds)
        loaded = await load_model(checked, config, host, settings, telemetry, bind)
        refuse_several_sessions(type(loaded.model).__qualname__, loaded.max_sessions)
        performer_type = partial(LeadingPerformer, leader=leader)
        return msgspec.structs.replace(loaded, performer_type=performer_type, first_frame=leader.made_frame)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run, leader.run)
        try:
            await work(link, host, frames, source=source, load=load, ends=partial(host.post, leader.stop))
        finally:
            nursery.cancel_scope.cancel()


def _bind(model: Model, answers: RankAnswers, rank: int, world_size: int) -> None:
    assert isinstance(model, DistributedPipeline)
    model._reactor_binding = RankBinding(model._port(), answers)
    model.rank, model.world_size = rank, world_size


async def follow(
    link: IpcLink,
    host: ModelHost,
    _frames: FrameExchange,
    *,
    rank: int,
    world_size: int,
    first: MessageLink,
    join: Callable[[], object] = lambda: None,
    source: WorkerModel = IMPORTED,
) -> None:
    """Follow rank 0, at the other end of `first`, until it or the server is gone. For the rest, see `lead` and `work`.

    It shows no frames: those of rank 0 lie in its half of the memory.
    """

    async def until_gone(other: MessageLink, handle: Handle) -> None:
        await other.receive(handle)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        follower = Follower(rank, first, host, link.send)
        bind = partial(_bind, answers=FollowerAnswers(), rank=rank, world_size=world_size)
        worker = _FollowerWorker(link, host, nursery, source, follower, bind, join)
        nursery.start_soon(link.run)
        nursery.start_soon(until_gone, link, worker.receive)
        nursery.start_soon(until_gone, first, follower.receive)
    first.close()


@dataclass(eq=False)
class _FollowerWorker(ProcessWorker):
    follower: Follower
    bind: Callable[[Model], None]
    join: Callable[[], object]

    def receive(self, message: Any, session: int) -> None:
        if isinstance(message, LogStack):
            log.error("it is here:\n%s", self.host.stack())
        super().receive(message, session)

    async def load(
        self, checked: CheckedModel, config: dict[str, Any], settings: Settings
    ) -> ipc_messages.ModelLoaded:
        self.join()
        self.declaration = checked.declaration
        self.model = self.declaration.model()
        assert isinstance(self.model, DistributedPipeline)
        fps = settings.fps or fps_before_load(self.model)
        self.binding = BareBinding(self.declaration, fps, settings.limits.input_bytes)
        self.model._reactor_binding = self.binding
        self.bind(self.model)
        with reported_load(self.host.post_io, ToServer(self.link).loading):
            await call_load(self.model, config)
        self.binding.loaded(settings.fps or self.model.fps)
        self.source.model_loaded(self.model)
        return ipc_messages.ModelLoaded(1, world_weights(self.declaration, self.model))

    async def serve(self) -> None:
        await self.host.run(self.follower.run, self.model, self.declaration, self.binding)


async def _serve(store: int, links: list[int], link: IpcLink, host: ModelHost, frames: FrameExchange) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    message_types = ToLeader if rank == 0 else FromLeader
    others = [RankLink(socket.socket(fileno=descriptor), message_types) for descriptor in links]
    join = partial(torch_group.join, rank, world_size, store)
    if rank == 0:
        keep_frames_in(frames.empty)
        await lead(link, host, frames, others=others, join=join)
    else:
        await follow(link, host, frames, rank=rank, world_size=world_size, first=others[0], join=join)
    torch_group.leave()


if __name__ == "__main__":
    to_server, ahead, *own = sys.argv[1:]
    words, memory, store, *links = map(int, own)
    main(int(to_server), float(ahead), words, memory, partial(_serve, store, links))
