"""A server in a network of its own, which a test may break or fill with addresses. It takes Linux, and the right to."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.fault_peers import ReactorProcess

#: The command before a server's own: a network that has nothing but a loopback device.
OWN_NETWORK = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
#: The same, and each address of 10.0.0.0/8 is one of this machine's.
MANY_ADDRESSES = (
    "unshare", "-n", "sh", "-c", 'ip link set lo up && ip route add local 10.0.0.0/8 dev lo && exec "$@"', "sh",
)  # fmt: skip

_CLONE_NEWNET = 0x40000000


def may_run(*command: str) -> bool:
    """Whether this machine lets us."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@contextmanager
def inside_of(server: ReactorProcess) -> Iterator[None]:
    """Sockets that this thread, and the threads that it starts, make are in the server's network."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{threading.get_native_id()}/ns/net") as own, open(f"/proc/{server.process.pid}/ns/net") as its:
        assert libc.setns(its.fileno(), _CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), _CLONE_NEWNET) == 0
