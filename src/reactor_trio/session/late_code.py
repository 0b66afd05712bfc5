"""The author code of a session that runs for too long: while its clients are there, and after the session has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.crossing.messages import LateCall
from reactor_trio.protocol import Late
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.session")

#: Seconds for which a step may outlive its session before the clients get their goodbye.
FAREWELL = 1.0

#: Sends a message of the runtime to clients: its type and its data.
Say = Callable[[str, Late], object]


class LateCode:
    """What is late in one session; on the I/O loop.

    Args:
        model: name of the model's class.
    """

    def __init__(self, session_id: str, model: str, telemetry: Telemetry) -> None:
        self._session_id, self._model, self._telemetry = session_id, model, telemetry
        #: of the last `LateCall`
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

    async def see_out(self, closed: trio.Event, stuck_after: float, stack: Callable[[], str]) -> None:
        """The session has ended: report a step that goes on, and its end, which is `closed`. Cannot be cancelled.

        Args:
            stuck_after: seconds after which it is reported.
            stack: gives the stack of the step as text.
        """
        if await comes_within(stuck_after, closed):
            return
        self._telemetry.step_stuck(self._session_id, True)
        log.error(
            "session %s: %s still computes %g s after the session ended, and the next client waits for it. "
            "Poll self.cancelled() in long steps. It is here:\n%s",
            self._session_id, self._model, stuck_after, stack(),
        )  # fmt: skip
        with trio.CancelScope(shield=True):
            await closed.wait()
        self._telemetry.step_stuck(self._session_id, False)


async def comes_within(seconds: float, event: trio.Event) -> bool:
    """Wait for `event`, at most so long; whether it has come. Cannot be cancelled."""
    with patient(trio.move_on_after(seconds, shield=True)):
        await event.wait()
    return event.is_set()
