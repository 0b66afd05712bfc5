"""A `VideoModel` blocks: its `start_session()` serves one client on a thread of its own (`blocking_driver`)."""

from __future__ import annotations

from typing import Any

from reactor_trio.concurrency import ModelHost
from reactor_trio.errors import DeclarationError
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.interface.model import Model
from reactor_trio.interface.video_model import VideoModel, instantiate
from reactor_trio.pacing import BlockCadence, Cadence


def check(name: str, model: Any) -> None:
    """Refuse a class without a `start_session()` of its own."""
    if model.start_session is VideoModel.start_session:
        raise DeclarationError(f"{name} has no start_session(); define it, it serves one client")


async def make(model_class: type[Model], config: dict[str, Any], host: ModelHost) -> Model:
    """Make the model on the thread of its sessions; its constructor gets the configuration."""
    return await host.author_threads[0].run(instantiate, model_class, config)


async def load(_model: Any, _config: dict[str, Any]) -> None:
    """Do nothing: the constructor has loaded the model."""


def cadence(model: Model, declared_fps: float | None, max_fps: float) -> Cadence:
    """The rate that a track fixes, or what the blocks show it to be."""
    fixed = fixed_rate(type(model))
    return BlockCadence(fixed or declared_fps, max_fps, fixed=fixed is not None)
