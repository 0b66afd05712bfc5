"""Accepting connections: what the system has no descriptor or memory for waits, and what is over already costs little.

Where nothing is left to accept with, `trio.serve_listeners` tries again, and logs a traceback at each of its ten tries a
second. The reader of the log wants to know when it began, what to do, and when it was over.

A client that connects and resets at once, thousands of times, fills the system's queue with connections that are over. Each
one that gets a task holds up the clients behind it in the queue, so it gets none: one look at the socket says that there
is nothing to serve.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import select
import struct
import termios

import trio

logger = logging.getLogger(__name__)

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_PAUSE = 0.1
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux; elsewhere the first read finds it


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """`listener`, which waits where nothing is left to accept with, and gives no connection that has ended without a byte.

    Clients that connect while it waits stay in the system's queue.
    """

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._exhausted_since: float | None = None

    async def accept(self) -> trio.SocketStream:
        """The next connection that is not over yet.

        Raises OSError as `trio.SocketListener.accept`, but not for want of descriptors or memory.
        """
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._explain(error)
                await trio.sleep(_PAUSE)  # the connection stays in the queue, so the socket stays readable
                continue
            if self._exhausted_since is not None:
                seconds = trio.current_time() - self._exhausted_since
                self._exhausted_since = None
                logger.info("connections are accepted again after %.1f s", seconds)
            if _is_over(stream.socket.fileno()):
                stream.socket.close()
            else:
                return stream

    async def aclose(self) -> None:
        """Close the listener."""
        await self._listener.aclose()

    def _explain(self, error: OSError) -> None:
        if self._exhausted_since is None:
            self._exhausted_since = trio.current_time()
            logger.error(
                "no connection can be accepted: %s; those that there are go on, and newcomers wait. Raise the limit of open "
                "files (ulimit -n), or lower runtime.limits.connections", error.strerror,
            )  # fmt: skip


def _is_over(descriptor: int) -> bool:
    """Whether the peer has reset this TCP connection, or ended its side of it before it sent a byte."""
    poll = select.poll()
    poll.register(descriptor, _HALF_CLOSED)
    events = next((events for _, events in poll.poll(0)), 0)  # of a reset the system tells unasked
    if not events & _HALF_CLOSED:
        return bool(events)
    (unread,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return bool(events & (select.POLLHUP | select.POLLERR)) or not unread
