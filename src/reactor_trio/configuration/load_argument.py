"""What a model's `load` gets: its configuration as a dict, or the path of the file."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface.author_code import defining_line
from reactor_trio.interface.manifest_files import MANIFEST_FILES
from reactor_trio.plain_text import one_line


def load_argument(load: Callable[..., object], config: dict[str, Any]) -> Any:
    """Return `config`, or the path of its file if `load` takes a path, as Reactor 3.x gives it.

    The path is that of the manifest's `config`, None without any configuration. If values were replaced, or given without a
    manifest, a private file holds them until the program ends. Raises ManifestError if YAML cannot hold them, and
    DeclarationError for a `load` without a parameter.
    """
    _refuse_without_parameter(load)
    if not _takes_path(load):
        return config
    if (path := MANIFEST_FILES.get().config) is not None or not config:
        return path
    try:
        text = yaml.safe_dump(config, sort_keys=False)
    except yaml.YAMLError as error:
        wrong = one_line(str(error))
        raise ManifestError(f"config: load() takes the path of a file, and YAML cannot hold the values: {wrong}") from None
    _folders.append(folder := tempfile.TemporaryDirectory(prefix="reactor-config-"))
    private = Path(folder.name) / "config.yml"
    private.write_text(text, encoding="utf-8")
    return private


#: deleted when the program ends
_folders: list[tempfile.TemporaryDirectory[str]] = []


def _refuse_without_parameter(load: Callable[..., object]) -> None:
    """Raise DeclarationError if a bound `load` cannot be called with one value."""
    try:
        inspect.signature(load).bind({})
    except TypeError:
        at = defining_line(load)
        name = getattr(load, "__qualname__", "load")
        wrong = f"{name} is called with the configuration, a dict: write `def load(self, config):` (at {at})"
        raise DeclarationError(wrong, anchor="load-argument") from None
    except ValueError:  # of code that is not Python's
        pass


def _takes_path(load: Callable[..., object]) -> bool:
    """Whether the first parameter of a bound `load` is named `config_path`, or annotated `Path` or `Path | None`."""
    first = next(iter(inspect.signature(load).parameters.values()), None)
    if first is None:
        return False
    annotation = first.annotation
    members = annotation.split("|") if isinstance(annotation, str) else [annotation, *getattr(annotation, "__args__", ())]
    paths = {Path, "Path", "pathlib.Path", "Optional[Path]"}
    return first.name == "config_path" or any((m.strip() if isinstance(m, str) else m) in paths for m in members)
