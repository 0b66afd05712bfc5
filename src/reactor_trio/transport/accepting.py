"""Accepting connections when the process or the system has no descriptor or memory left for them.

`trio.serve_listeners` tries again, and logs a traceback at each of its ten tries a second. Who must read the log wants to
know when it began, what to do, and when it was over.
"""

from __future__ import annotations

import errno
import logging

import trio

logger = logging.getLogger(__name__)

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
_PAUSE = 0.1


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """`listener`, which waits where nothing is left to accept with; who connects meanwhile waits in the system's queue."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._exhausted_since: float | None = None

    async def accept(self) -> trio.SocketStream:
        """The next connection. Raises OSError as `trio.SocketListener.accept`, but not for want of descriptors or memory."""
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
