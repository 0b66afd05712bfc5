"""`SendBuffer`: keeps the system's send buffer of a TCP connection small enough for live video.

Bytes stay in the send buffer until the peer acknowledges them, so a connection carries at most one buffer per round trip.
Bytes that wait there grow old, and no newer frame can replace them. By default Linux lets the buffer grow for as long as the
routers on the path queue the bytes: up to several megabytes, which are 16 s of a link of 2 Mbit/s.

So we set the buffer to twice what the connection carries in its shortest round trip, and never below `FLOOR`. TCP needs that
much to carry the same rate and more. While the buffer limits the connection, the rule gives twice the current size, and the
buffer grows. On a slow link the size does not change, however much the queues on the path lengthen the round trip.

Linux reports both numbers; on other systems the buffer has `FLOOR` bytes. If Linux grants less than `FLOOR`
(`net.core.wmem_max`, 208 KiB on many machines), the granted size becomes the floor. If the rule wants more than Linux
grants, we unlock the size, and Linux chooses it up to `net.ipv4.tcp_wmem`; it cannot do that while a size is set.
"""

from __future__ import annotations

import math
import socket
import struct
import sys
from contextlib import suppress

import trio

#: Smallest size in bytes; it is enough for 40 Mbit/s at a round trip of 100 ms.
FLOOR = 512 * 1024
#: Seconds between two measurements of the connection.
WATCHED = 0.1

#: Two fields of Linux's `struct tcp_info`: tcpi_bytes_acked, and tcpi_min_rtt in microseconds.
INFO = struct.Struct("=120xQ20xI")
#: A socket option of Linux 5.14 and newer; the value 0 lets the system choose the size.
SO_BUF_LOCK = 72


class SendBuffer:
    """Sizes the send buffer of `tcp`, a connected socket. Needs a running Trio loop.

    No method raises OSError: if the system refuses a size, the buffer keeps its current one.
    """

    def __init__(self, tcp: trio.socket.SocketType) -> None:
        self._tcp = tcp
        self._at = trio.current_time()
        self._acknowledged = 0
        self._most = math.inf
        self._set(FLOOR)
        self._floor = self._size = min(FLOOR, self._most)

    def fit(self) -> None:
        """Adapt the size. `WireStream` calls this each time a write waits for room."""
        seconds = trio.current_time() - self._at
        if seconds < WATCHED or sys.platform != "linux":
            return
        info = b""
        with suppress(OSError):  # a sandbox may hide the numbers
            info = self._tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
        if len(info) < INFO.size:
            return  # hidden, or an older Linux with fewer fields
        acknowledged, round_trip = INFO.unpack(info)
        carried = (acknowledged - self._acknowledged) / seconds
        self._acknowledged, self._at = acknowledged, self._at + seconds
        size = max(self._floor, 2 * carried * round_trip / 1e6)
        if self._size / 2 <= size <= self._size:
            return
        self._size = size
        if size <= self._most:
            self._set(round(size))
        if size > self._most:
            with suppress(OSError):  # an older Linux has no such option: the size stays at the most that it grants
                self._tcp.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, 0)

    def _set(self, size: int) -> None:
        with suppress(OSError):  # a sandbox may refuse: then the system chooses the size
            self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            granted = self._tcp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            if sys.platform == "linux" and granted // 2 < size:  # Linux reports twice the size, to count its own overhead
                self._most = granted // 2
