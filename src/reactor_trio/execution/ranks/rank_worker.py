"""What runs in the process of a rank: the isolated worker that leads on rank 0, a follower on the others."""

from __future__ import annotations

import inspect
import logging
import pickle  # nosec B403 - from the process that started this one, over a socket pair that nobody else has
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import Given, model_class, work
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.isolation.remote_failure import failure_of
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
from reactor_trio.interface.model import Model
from reactor_trio.interface.weights import weights_of_manifest
from reactor_trio.pacing.cadence import DEFAULT_FPS

log = logging.getLogger("reactor_trio.model")


async def lead(
    link: Link,
    host: ModelHost,
    frames: SharedFrames | None = None,
    *,
    others: Sequence[Link],
    join: Callable[[], object],
    leave: Callable[[], object],
    at_once: bool = True,
    **options: Any,
) -> None:
    """Do what the server says until it says no more, as rank 0.

    Args:
        others: to the ranks from 1 on.
        join: makes this process one of the group; called on the model thread before the load.
        leave: takes it out of it.
        at_once: see `Leader`.
        options: those of `work`.
    """
    leading = Leader(others, host, link.send, at_once=at_once)

    async def load(cls: type[Model], config: dict[str, Any], host: ModelHost, settings: Settings, telemetry: Any) -> Any:
        join()
        leading.patience = settings.step_timeout or float("inf")
        loaded = await load_model(cls, config, host, settings, telemetry, partial(_place_first, leading))
        refuse_several_sessions(cls.__qualname__, loaded.max_sessions)
        return msgspec.structs.replace(loaded, runner_type=partial(LeadingSessionRunner, leading))

    async def until_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            host.post(leading.stop)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.run, leading.run)
        nursery.start_soon(until_cancelled)
        try:
            await work(link, host, frames, load=load, **options)
        finally:
            nursery.cancel_scope.cancel()
    leave()


def _place_first(leading: Leader, model: Model) -> None:
    binding = model._reactor_binding
    assert isinstance(binding, SessionBinding)
    model._reactor_binding = LeaderBinding(binding, leading.answer)
    _place(model, 0, leading.ranks)


def _place(model: Model, rank: int, world_size: int) -> None:
    assert isinstance(model, DistributedPipeline)
    model.rank, model.world_size = rank, world_size


async def follow(
    link: Link,
    host: ModelHost,
    _frames: SharedFrames | None = None,
    *,
    rank: int,
    world_size: int,
    first: Link,
    join: Callable[[], object],
    leave: Callable[[], object],
    find: Callable[[str], type[Model]] = model_class,
    unpack: Callable[[bytes], Given] = pickle.loads,  # nosec B301 - see the import
    loaded: Callable[[Model], object] = lambda _model: None,
) -> None:
    """Follow rank 0, which `first` leads to, until that or the server is gone. The rest is as for `lead` and `work`."""
    follower = Follower(rank, first, host, link.send)

    async def load(word: ipc_messages.Load) -> None:
        if word.path:
            sys.path[:] = word.path
        config, settings, weights = unpack(word.given)
        with weights_of_manifest(weights):
            try:
                model = await host.run(make, word.model, config, settings)
            except trio.Cancelled:
                raise
            except BaseException as error:
                link.send(ipc_messages.NotLoaded(failure_of(error)))
                return
            loaded(model)
            link.send(ipc_messages.Loaded(1))
            await host.run(follower.run, model, declaration_of(type(model)))

    async def make(path: str, config: dict[str, Any], settings: Settings) -> Model:
        join()
        cls = find(path)
        assert issubclass(cls, DistributedPipeline)
        declaration = declaration_of(cls)
        model = cls()
        fps = settings.fps or model.fps or DEFAULT_FPS
        model._reactor_binding = FollowerBinding(declaration, follower, fps)
        _place(model, rank, world_size)
        waits: Any = model.load(config)  # type: ignore[func-returns-value]
        if inspect.isawaitable(waits):
            await waits
        return model

    def hear(word: Any, _descriptor: int | None) -> None:
        match word:
            case ipc_messages.Load():
                nursery.start_soon(load, word)
            case ipc_messages.Ping(number):
                host.post(host.post_io, link.send, ipc_messages.Pong(number))
            case ipc_messages.ShowStack():
                log.error("it is here:\n%s", host.stack())

    async def until_gone(other: Link, take: Callable[[Any, int | None], object]) -> None:
        await other.hear(take)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        nursery.start_soon(until_gone, link, hear)
        nursery.start_soon(until_gone, first, follower.hear)
    first.close()
    leave()
