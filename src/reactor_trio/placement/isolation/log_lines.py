"""Log records of the model's process on their way to the server, which filters and formats them.

The model's process makes no records below the levels of the server's process (`set_levels`, `follow_levels`).

A model may log faster than the server reads, and the server may stand still. So only some lines are under way; further ones
are dropped, and the next line that goes says how many. Lines from WARNING on take the place of lower ones that wait.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.socket_link import SocketLink
from reactor_trio.execution.current_session import current_session
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.plain_text import sendable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: lines that may wait for the loop of the link, and bytes that may wait there and, again, in the link; there, lines from
#: WARNING on have as many bytes more
MOST_LINES, MOST_BYTES = 1000, 1024 * 1024

#: number, line, size
_Waiting = tuple[int, ipc_messages.LogLine, int]


class LinkHandler(logging.Handler):
    """Sends log records to the server, from any thread. Make it on the loop of the link."""

    def __init__(self, link: SocketLink) -> None:
        super().__init__()
        self._link = link
        self._token = trio.lowlevel.current_trio_token()
        # under the handler's lock: the lines that wait for the loop of the link, below WARNING and from there on
        self._lower: deque[_Waiting] = deque()
        self._warnings: deque[_Waiting] = deque()
        self._numbers = itertools.count()
        self._bytes = self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record to the server, or count it as dropped. Called under the handler's lock."""
        warns = record.levelno >= logging.WARNING
        if self._full and not (warns and self._lower):
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
            self._token.run_sync_soon(self._send_waiting, idempotent=True)
        except trio.RunFinishedError:
            return
        except Exception:
            self.handleError(record)
            return
        while self._full and self._lower:
            self._take(self._lower)
            self._dropped += 1
        (self._warnings if warns else self._lower).append((next(self._numbers), line, size))
        self._bytes += size

    def flush(self) -> None:
        """Send the lines that wait. For any thread."""
        self._send_waiting()

    @property
    def _full(self) -> bool:
        return len(self._lower) + len(self._warnings) >= MOST_LINES or self._bytes >= MOST_BYTES

    def _take(self, lines: deque[_Waiting]) -> ipc_messages.LogLine:
        _, line, size = lines.popleft()
        self._bytes -= size
        return line

    def _next(self) -> ipc_messages.LogLine | None:
        """Take the oldest line that the link has room for, and how many were dropped before it; None if no line waits."""
        while waiting := [lines for lines in (self._lower, self._warnings) if lines]:
            line = self._take(min(waiting, key=lambda lines: lines[0][0]))
            if self._link.unsent > MOST_BYTES * (2 if line.level >= logging.WARNING else 1):
                self._dropped += 1
                continue
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text = f"{line.message} (before it, {dropped} log lines were dropped: the server did not take them)"
                line = msgspec.structs.replace(line, message=text)
            return line
        return None

    def _send_waiting(self) -> None:
        while True:
            with self.lock:  # type: ignore[union-attr]
                line = self._next()
            if line is None:
                return
            self._link.send(line)


def set_levels() -> dict[str, int]:
    """The levels that this process has set, by the name of the logger, and not below what `logging.disable` says."""
    manager = logging.root.manager
    loggers = [logging.root, *(each for each in list(manager.loggerDict.values()) if isinstance(each, logging.Logger))]
    return {each.name: max(each.level, manager.disable + 1) for each in loggers if each.level or each is logging.root}


def follow_levels(levels: Mapping[str, int]) -> None:
    """Set the levels that `set_levels` has found in another process."""
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _plain(value: Any) -> Any:
    """Return a value that the link can carry: this one, or its repr."""
    try:
        msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return repr(value)
    return value
