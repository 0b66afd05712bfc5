"""How much of what is written may lie in the system's send buffer of a TCP connection.

Bytes stay in that buffer until the peer acknowledges them, so no more passes than the buffer holds in each round trip. What
lies there is also old when it arrives, and no newer frame can replace it any more. Left alone, Linux lets the buffer grow
for as long as the routers on the way queue what is sent: up to several megabytes, which are 16 s of a link of 2 Mbit/s.

So the buffer holds twice what the connection carries in its shortest round trip, which is what TCP needs to carry that and
more, but never less than `FLOOR`. While the buffer is what holds a connection back, that is twice its size, and it grows; on
a link that is slow it stays as it is, however long the queue there makes the round trip.

Linux tells both numbers; elsewhere the buffer has `FLOOR` bytes. Where Linux grants less than that (`net.core.wmem_max`, on
many machines 208 KiB) the floor is what it grants. A size that it does not grant it may choose itself, up to
`net.ipv4.tcp_wmem`, which it cannot do while a size is set.
"""

from __future__ import annotations

import math
import socket
import struct
import sys
from contextlib import suppress

import trio

#: bytes: enough for 40 Mbit/s at a round trip of 100 ms
FLOOR = 512 * 1024
#: seconds for which the connection is watched before the size is changed
WATCHED = 0.1

#: of `struct tcp_info`: tcpi_bytes_acked, tcpi_min_rtt (microseconds)
INFO = struct.Struct("=120xQ20xI")
#: of Linux 5.14 and newer; 0: the system may choose the size
SO_BUF_LOCK = 72


class SendBuffer:
    """The send buffer of `tcp`, a connected socket. Needs a running Trio loop.

    Nothing here raises OSError: where the system refuses, the buffer keeps the size that it has.
    """

    def __init__(self, tcp: trio.socket.SocketType) -> None:
        self._tcp = tcp
        self._at = trio.current_time()
        self._acknowledged = 0
        self._most = math.inf
        self._set(FLOOR)
        self._floor = self._size = min(FLOOR, self._most)

    def fit(self) -> None:
        """Give it the size that it should have; to be called while a write waits for room, as often as that is."""
        seconds = trio.current_time() - self._at
        if seconds < WATCHED or sys.platform != "linux":
            return
        info = b""
        with suppress(OSError):  # a sandbox that does not tell
            info = self._tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
        if len(info) < INFO.size:
            return  # or an older Linux
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
            with suppress(OSError):  # an older Linux: it stays at the most
                self._tcp.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, 0)

    def _set(self, size: int) -> None:
        with suppress(OSError):  # a sandbox that refuses: the system chooses the size
            self._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            granted = self._tcp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            if sys.platform == "linux" and granted // 2 < size:  # it says twice as much, with what it needs itself
                self._most = granted // 2
