"""Starts the processes of a model. Only this module knows that one process is `isolation`, and several are `ranks`."""

from __future__ import annotations

import os

import trio

from reactor_trio.errors import ManifestError
from reactor_trio.placement.isolation.model_process import ModelProcess, open_alone
from reactor_trio.placement.ranks.rank_group import open_ranks


async def open_processes(number: int) -> ModelProcess:
    """Start so many processes of a model. Always a checkpoint.

    Raises ManifestError if the system is not Linux, OSError if a process cannot be started.
    """
    await trio.lowlevel.checkpoint()
    if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
        raise ManifestError(
            "runtime.isolation: process needs Linux; leave the key out" if number == 1
            else f"{number} ranks need Linux; set runtime.ranks to 1"
        )  # fmt: skip
    return open_alone() if number == 1 else await open_ranks(number)
