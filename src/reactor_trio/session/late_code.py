"""The author code of a session that runs for too long while its clients are there, and what they learn of it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from reactor_trio.crossing.messages import LateCall
from reactor_trio.protocol import Late
from reactor_trio.telemetry import Telemetry

#: Sends a message of the runtime to clients: its type and its data.
Say = Callable[[str, Late], object]


class LateCode:
    """The last `LateCall` of one session; on the I/O loop."""

    def __init__(self, session_id: str, telemetry: Telemetry) -> None:
        self._session_id, self._telemetry = session_id, telemetry
        self._what, self._since = "", 0.0

    def take(self, say: Say, call: LateCall) -> None:
        """Take a report, and send it to all clients by `say`."""
        self._telemetry.author_code_late(self._session_id, call.what, call.since)
        before, self._what, self._since = self._what, call.what, call.since
        if call.what:
            self.repeat(say)
        elif before:
            say("reactor.late", Late(None))

    def repeat(self, say: Say) -> None:
        """Send what is so now to a client that attaches; nothing if no author code is late."""
        if self._what:
            say("reactor.late", Late(self._what, round(trio.current_time() - self._since, 3)))
