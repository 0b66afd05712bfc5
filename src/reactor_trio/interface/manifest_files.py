"""The files of a project: the folder of its weights, and its configuration."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from reactor_trio.interface.context import set_during

#: environment variable that overrides the manifest
WEIGHTS_VARIABLE = "REACTOR_WEIGHTS_PATH"


class ManifestFiles(NamedTuple):
    """The files of a project that model code may ask for.

    Attributes:
        weights: the folder `weights_path`, absolute; None without that key.
        config: the file `config`, absolute; None without that key, or if its values were replaced for this server.
    """

    weights: Path | None = None
    config: Path | None = None


#: of the model that the code of this context belongs to
MANIFEST_FILES: ContextVar[ManifestFiles] = ContextVar(
    "reactor_manifest_files", default=ManifestFiles()  # noqa: B039 - a tuple
)


def get_weights_path() -> Path:
    """Return the absolute path of the weights' folder, which need not exist.

    It is the environment variable `REACTOR_WEIGHTS_PATH`, else `weights_path` of `reactor.yaml` (relative to that file),
    else `~/.cache/reactor_registry`. `~` is expanded. Call it in `load()` or in any code that the server calls later.
    """
    given = os.environ.get(WEIGHTS_VARIABLE)
    folder = Path(given) if given else MANIFEST_FILES.get().weights or Path("~/.cache/reactor_registry")
    return folder.expanduser().absolute()


def files_of_manifest(files: ManifestFiles) -> AbstractContextManager[None]:
    """Use `files` in this block, and in tasks and model code that it starts."""
    return set_during(MANIFEST_FILES, files)
