"""Public names of Reactor 3.x's packages `interface.events`, `.model` and `.tracks`, which other modules define here.

Those modules import the module that Reactor calls so. It therefore imports them when such a name is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_from(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `module`. `places` maps a name to `module.attribute`, below `reactor_trio`."""

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, attribute = places[name].rpartition(".")
        return getattr(import_module(f"reactor_trio.{place}"), attribute)

    return __getattr__
