"""`PatientListener`: a listener that waits while the system is out of resources, and drops connections that have ended.

When the process has no file descriptor or memory left to accept a connection, `trio.serve_listeners` retries ten times a
second and logs a traceback each time. `PatientListener` logs once when the shortage begins, with advice, and once when it is
over.

A client that connects and resets thousands of times fills the system's accept queue with connections that have already
ended. A task for each of them would delay the clients behind it in the queue. So each accepted socket is polled once, and a
connection that has ended gets no task.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import select
import struct
import termios

import trio

from reactor_trio.descriptors import keep_from_children

log = logging.getLogger("reactor_trio.transport")

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_PAUSE = 0.1
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux only; on other systems the first read notices the end


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """Wraps `listener`: waits while the system is out of resources, and skips connections that ended without sending a byte.

    Clients that connect during the wait stay in the system's accept queue. Forked children of this process do not keep the
    connections.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._exhausted_since: float | None = None

    async def accept(self) -> trio.SocketStream:
        """Return the next connection that has not ended yet.

        Raises OSError like `trio.SocketListener.accept`, except when descriptors or memory are short.
        """
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if self._exhausted_since is None:
                    self._exhausted_since = trio.current_time()
                    log.error(
                        "no connection can be accepted: %s. Open connections go on; new clients wait. Raise the limit of "
                        "open files (ulimit -n), or lower runtime.limits.connections", error.strerror,
                    )  # fmt: skip
                await trio.sleep(_PAUSE)  # the connection stays in the queue, so the socket stays readable
                continue
            if self._exhausted_since is not None:
                seconds = trio.current_time() - self._exhausted_since
                self._exhausted_since = None
                log.info("connections are accepted again after %.1f s", seconds)
            if _has_ended(stream.socket.fileno()):
                stream.socket.close()
            else:
                keep_from_children(stream.socket)
                return stream

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()


def _has_ended(descriptor: int) -> bool:
    """Return whether the peer has reset this TCP connection, or ended its side without having sent a byte."""
    poll = select.poll()
    poll.register(descriptor, _HALF_CLOSED)
    events = next((events for _, events in poll.poll(0)), 0)  # poll reports a reset without being asked for it
    if not events & _HALF_CLOSED:
        return bool(events)
    (unread,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return bool(events & (select.POLLHUP | select.POLLERR)) or not unread
