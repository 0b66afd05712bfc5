"""The first lines of the model's process: `python -m reactor_trio.execution.isolation.process_main DESCRIPTOR AHEAD`.

Signals of a terminal or a service manager go to the whole group; the server heeds them, and tells this process in its time.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost, open_model_host
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import work
from reactor_trio.execution.isolation.process_link import Link, SocketLink
from reactor_trio.execution.isolation.remote_failure import failure_of
from reactor_trio.execution.isolation.shared_clock import SharedClock
from reactor_trio.execution.isolation.shared_frames import SharedFrames
from reactor_trio.execution.session_log_filter import current_session
from reactor_trio.media import keep_frames_in

#: seconds after which a thread that holds the interpreter is asked to let go, as in the server
SWITCH_INTERVAL = 0.001
#: `prctl`: the signal that comes when the parent is gone
_PR_SET_PDEATHSIG = 1
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def main(descriptor: int, ahead: float, serve: Callable[[Link, ModelHost, SharedFrames], Awaitable[None]] = work) -> None:
    """Serve the server at the other end of `descriptor`, whose clock is `ahead` seconds ahead of the system's.

    `serve` does what the server says until it says no more.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(RuntimeError, OSError, ValueError):  # there is no standard error
        faulthandler.enable()  # model code that crashes the process leaves its stack there
    sys.setswitchinterval(SWITCH_INTERVAL)
    trio.run(_main, socket.socket(fileno=descriptor), serve, clock=SharedClock(ahead))


async def _main(sock: socket.socket, serve: Callable[[Link, ModelHost, SharedFrames], Awaitable[None]]) -> None:
    link = SocketLink(sock, ipc_messages.ToModel)
    frames = SharedFrames(link.send)
    keep_frames_in(frames.empty)
    logging.basicConfig(level=logging.DEBUG, handlers=[_LinkHandler(link)], force=True)
    logging.captureWarnings(True)
    async with open_model_host() as host:
        await serve(link, host, frames)


class _LinkHandler(logging.Handler):
    """Log records go to the server, from any thread; it knows which are wanted and how they look."""

    def __init__(self, link: SocketLink) -> None:
        super().__init__()
        self._link = link
        self._token = trio.lowlevel.current_trio_token()

    def emit(self, record: logging.LogRecord) -> None:
        """Send it on."""
        try:
            extra = {key: _plain(value) for key, value in vars(record).items() if key not in _STANDARD}
            message = record.msg.get("event", "") if isinstance(record.msg, dict) else record.getMessage()
            if isinstance(record.msg, dict):  # structlog's
                extra |= {key: _plain(value) for key, value in record.msg.items() if key not in ("event", "exc_info")}
            error = record.exc_info[1] if record.exc_info else None
            line = ipc_messages.Logged(
                record.name, record.levelno, str(message), None if error is None else failure_of(error),
                current_session(), extra,
            )  # fmt: skip
            self._token.run_sync_soon(self._link.send, line)
        except trio.RunFinishedError:
            pass
        except Exception:
            self.handleError(record)


def _plain(value: Any) -> Any:
    """What the link can carry; of anything else its repr."""
    try:
        msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return repr(value)
    return value


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
