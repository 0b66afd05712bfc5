"""The folder of a model's weights on this machine."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path

from reactor_trio.interface.context import set_during

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


def weights_of_manifest(folder: Path | None) -> AbstractContextManager[None]:
    """Use `folder` as the manifest's `weights_path` in this block, and in tasks and model code that it starts."""
    return set_during(_manifest_folder, folder)
