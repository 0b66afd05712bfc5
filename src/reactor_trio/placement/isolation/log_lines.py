"""Log records of the model's process on their way to the server, which filters and formats them.

A model may log faster than the server reads, and the server may stand still. So only some lines are under way; further ones
are dropped, and the next line that goes says how many.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import trio

from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.socket_link import SocketLink
from reactor_trio.execution.current_session import current_session
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.plain_text import sendable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: lines that may wait for the loop of the link, and bytes that may wait there and, again, in the link
MOST_LINES, MOST_BYTES = 1000, 1024 * 1024


class LinkHandler(logging.Handler):
    """Sends log records to the server, from any thread. Make it on the loop of the link."""

    def __init__(self, link: SocketLink) -> None:
        super().__init__()
        self._link = link
        self._token = trio.lowlevel.current_trio_token()
        # under the handler's lock
        self._lines = self._bytes = self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`. Called under the handler's lock."""
        if self._lines >= MOST_LINES or self._bytes >= MOST_BYTES:
            self._dropped += 1
            return
        try:
            event = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}  # structlog's is a dict
            given = {**vars(record), **{key: value for key, value in event.items() if key != "event"}}
            extra = {key: _plain(value) for key, value in given.items() if key not in _STANDARD}
            error = record.exc_info[1] if record.exc_info else None
            failure = None if error is None else Failure.of(error)
            text = sendable(event.get("event", ""))
            line = ipc_messages.LogLine(record.name, record.levelno, text, failure, current_session(), extra)
            size = len(msgspec.msgpack.encode(line))
            self._token.run_sync_soon(self._send, line, size)
            self._lines += 1
            self._bytes += size
        except trio.RunFinishedError:
            pass
        except Exception:
            self.handleError(record)

    def _send(self, line: ipc_messages.LogLine, size: int) -> None:
        with self.lock:  # type: ignore[union-attr]
            self._lines -= 1
            self._bytes -= size
            if self._link.unsent > MOST_BYTES:
                self._dropped += 1
                return
            dropped, self._dropped = self._dropped, 0
        if dropped:
            text = f"{line.message} (before it, {dropped} log lines were dropped: the server did not take them)"
            line = msgspec.structs.replace(line, message=text)
        self._link.send(line)


def _plain(value: Any) -> Any:
    """Return a value that the link can carry: this one, or its repr."""
    try:
        msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return repr(value)
    return value
