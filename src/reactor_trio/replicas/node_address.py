"""Address and name of this process in the cluster, and its log."""

from __future__ import annotations

import logging
import os
import socket
import sys

import ray
import trio

_ANY = ("0.0.0.0", "::", "")  # nosec B104


def own_address(host: str) -> str:
    """Return the address by which other nodes reach a socket that listens at `host` on this node."""
    return str(ray.util.get_node_ip_address()) if host in _ANY else host


def own_name() -> str:
    """Return this process's name in the cluster, `process@node`, for logs and for the node helper."""
    return f"{os.getpid()}@{ray.get_runtime_context().get_node_id()}"


def parse_name(name: str) -> tuple[int, str]:
    """Return the process id and the node id of a name that `own_name` made."""
    process, _, node = name.partition("@")
    return int(process), node


def listen(host: str, port: int, *, shared: bool = False) -> trio.SocketListener:
    """Return a listener. If it is `shared`, another process of the same user may listen there, too. Raises OSError."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
        listening.bind((host, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))


def log_to_stderr() -> None:
    """Send the package's log to stderr, where Ray collects it with the name of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    ours = logging.getLogger("reactor_trio")
    ours.handlers[:] = [handler]
    ours.setLevel(logging.INFO)
    ours.propagate = False
