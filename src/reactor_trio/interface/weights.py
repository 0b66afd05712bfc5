"""The folder of a model's weights on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

#: environment variable that overrides the manifest
WEIGHTS_VARIABLE = "REACTOR_WEIGHTS_PATH"

_manifest_folder: ContextVar[Path | None] = ContextVar("reactor_weights", default=None)


def get_weights_path() -> Path:
    """Return the absolute path of the weights' folder, which need not exist.

    It is the environment variable `REACTOR_WEIGHTS_PATH`, else `weights_path` of `reactor.yaml` (relative to that file),
    else `~/.cache/reactor_registry`. `~` is expanded. Call it in `load()` or in any code that the server calls later.
    """
    given = os.environ.get(WEIGHTS_VARIABLE)
    folder = Path(given) if given else _manifest_folder.get() or Path("~/.cache/reactor_registry")
    return folder.expanduser().absolute()


@contextmanager
def weights_of_manifest(folder: Path | None) -> Iterator[None]:
    """Use `folder` as the manifest's `weights_path` in this block, and in tasks and model code that it starts."""
    token = _manifest_folder.set(folder)
    try:
        yield
    finally:
        _manifest_folder.reset(token)
