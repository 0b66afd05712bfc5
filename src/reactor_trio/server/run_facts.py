"""The facts that a replay needs, for the first line of a timeline: model, config digest, versions. No secrets."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any


def run_facts(model: type, config: Mapping[str, Any], session_id: str) -> dict[str, Any]:
    """Return the model's class, a digest of its config, and versions.

    The config itself may hold secrets; its digest is enough to compare it with another.
    """
    from reactor_trio.recording import config_digest

    return {
        "model": f"{model.__module__}:{model.__qualname__}",
        "config": config_digest(config, session_id),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, this package, and the numerical libraries that are loaded."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in ("reactor-trio", "numpy", "torch"):
        if package.replace("-", "_") in sys.modules and (version := installed_version(package)) is not None:
            found[package] = version
    return found


@cache
def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is a checkout without an installation."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
