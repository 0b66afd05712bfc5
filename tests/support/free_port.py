"""A port for a program that is told on which port it has to listen."""

from __future__ import annotations

import random
import socket
from pathlib import Path

#: below it Ray has ports of its own
LOWEST = 20_000


def free_port() -> int:
    """A port of this machine on which nothing listens, outside the range from which the system takes ports itself.

    One of that range can go to any connection of another test, or to another server on port 0, before the program listens.
    """
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        # `SystemRandom`: a worker beside this one may have set the same seed. The second: where the range begins lower.
        port = random.SystemRandom().choice(range(LOWEST, below) or range(LOWEST, 60_000))
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
