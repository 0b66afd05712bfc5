"""The facts that a replay needs, for the first line of a timeline: model, config digest, versions. No secrets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from reactor_trio.recording import config_digest


def run_facts(model: type, config: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """Return the model's class, a digest of its config, and versions.

    The config itself may hold secrets; its digest is enough to compare it with another.
    """
    return {
        "model": f"{model.__module__}:{model.__qualname__}",
        "config": config_digest(config, session_id),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, this package, and the numerical libraries that are loaded."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package, module in (("reactor-trio", "reactor_trio"), ("numpy", "numpy"), ("torch", "torch")):
        if module in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:  # a checkout without an installation
                continue
    return found
