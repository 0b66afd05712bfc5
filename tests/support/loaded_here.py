"""Loads a model on a model loop of the test, as a server without `isolation: process` does."""

from __future__ import annotations

from typing import Any, cast

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.interface.model import Model
from reactor_trio.placement.model_source import model_source, placement_loader
from reactor_trio.placement.placement import LoadPlacement


def load_here(host: ModelHost, model: type[Model], settings: Settings | None = None) -> LoadPlacement:
    """Return what loads `model` on `host`; it must need no other process, and no moderation."""
    source = model_source(model, name=model.__name__.lower(), settings=settings)
    return placement_loader(source, cast(Any, None), host, cast(Any, None))
