"""Where a process of ours runs in the cluster, and how it is named there."""

from __future__ import annotations

import logging
import os
import sys

import ray

_ANY = ("0.0.0.0", "::", "")  # nosec B104


def own_address(host: str) -> str:
    """The address by which others reach what listens at `host` here."""
    return str(ray.util.get_node_ip_address()) if host in _ANY else host


def own_name() -> str:
    """This process in the cluster, for logs and for the node helper: `process@node`."""
    return f"{os.getpid()}@{ray.get_runtime_context().get_node_id()}"


def parse_name(name: str) -> tuple[int, str]:
    """Process and node of `own_name`."""
    process, _, node = name.partition("@")
    return int(process), node


def log_to_stderr() -> None:
    """Send what the package logs to stderr, which Ray collects with the name of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    ours = logging.getLogger("reactor_trio")
    ours.handlers[:] = [handler]
    ours.setLevel(logging.INFO)
    ours.propagate = False
