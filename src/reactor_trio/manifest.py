"""`load_config` and `import_model_class` under their Reactor 3.x module name, for tests that look at a model's manifest."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from reactor_trio.configuration.manifest import load_manifest


class RuntimeConfig(NamedTuple):
    """The keys of a manifest that tests of Reactor 3.x models look at.

    Attributes:
        model_ref: the model as `module:Class`.
        model_name: its name.
        config_path: the absolute path of its configuration, None without one.
    """

    model_ref: str
    model_name: str
    config_path: Path | None


def load_config(manifest: Path) -> RuntimeConfig:
    """Read a `reactor.yaml`. Does not import the model. Raises ManifestError."""
    found = load_manifest(manifest.parent)
    return RuntimeConfig(found.model_path, found.name, found.config_path)


def import_model_class(model_ref: str) -> type[Any]:
    """Import the class that `module:Class` names."""
    module, _, name = model_ref.partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found
