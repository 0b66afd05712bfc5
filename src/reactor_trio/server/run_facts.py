"""What is needed to run a recorded session again, for the first line of its timeline. Secrets are not in it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from reactor_trio.recording import config_digest


def run_facts(model: type, config: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """The model's class, a digest of its config, and versions.

    Of the config no value is kept, since it may hold secrets: the digest says whether another config is the same.
    """
    return {
        "model": f"{model.__module__}:{model.__qualname__}",
        "config": config_digest(config, session_id),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of Python, this package, and the libraries that a model computes with, as far as they are loaded."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package, module in (("reactor-trio", "reactor_trio"), ("numpy", "numpy"), ("torch", "torch")):
        if module in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:  # a checkout that is not installed
                continue
    return found
