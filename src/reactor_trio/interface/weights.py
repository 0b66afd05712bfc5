"""Where a model's weights lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

#: variable of the environment that wins over the manifest
WEIGHTS_VARIABLE = "REACTOR_WEIGHTS_PATH"

_manifest_folder: ContextVar[Path | None] = ContextVar("reactor_weights", default=None)


def get_weights_path() -> Path:
    """The folder of the weights, absolute; it need not exist.

    The environment's `REACTOR_WEIGHTS_PATH`, else `weights_path` of `reactor.yaml` (relative to that file), else
    `~/.cache/reactor_registry`. `~` is expanded. For `load()`, and for whatever the server calls later.
    """
    given = os.environ.get(WEIGHTS_VARIABLE)
    folder = Path(given) if given else _manifest_folder.get() or Path("~/.cache/reactor_registry")
    return folder.expanduser().absolute()


@contextmanager
def weights_of_manifest(folder: Path | None) -> Iterator[None]:
    """In this block, and in tasks and model code that are started in it, `folder` is what the manifest says."""
    token = _manifest_folder.set(folder)
    try:
        yield
    finally:
        _manifest_folder.reset(token)
