"""How most kinds of model are made and loaded."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface.model import Model, ReactorModel


async def make_model(model_class: type[Model], _config: dict[str, Any], _host: ModelHost) -> Model:
    """Make a model whose `load` gets the configuration."""
    return model_class()


async def call_load(model: ReactorModel, config: dict[str, Any]) -> None:
    """Call the model's `load`, plain or async, with its configuration or the path of that."""
    loaded: Awaitable[None] | None = model.load(load_argument(model.load, config))  # type: ignore[func-returns-value]
    if inspect.isawaitable(loaded):
        await TracedAwaitable(loaded)
