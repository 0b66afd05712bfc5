"""The report of a step that outlives its session."""

from __future__ import annotations

import logging

import trio

from reactor_trio.execution.model_session import ModelSession
from reactor_trio.session.session_services import SessionServices

log = logging.getLogger("reactor_trio.session")


async def report_if_stuck(
    session_id: str, services: SessionServices, model_session: ModelSession, unwound: trio.Event
) -> None:
    """Task: report the step for which the end of a session waits, if that takes long, with its stack.

    Waits to be cancelled, which is the session's end, and then until `unwound` is set.
    """
    try:
        await trio.sleep_forever()
    finally:
        with trio.move_on_after(services.stuck_after, shield=True) as limit:
            await unwound.wait()
        if limit.cancelled_caught:
            services.telemetry.step_stuck(session_id, True)
            log.error(
                "session %s: %s still computes %g s after the session ended, and the next client waits for it. "
                "Poll self.cancelled() in long steps. It is here:\n%s",
                session_id, services.model_name, services.stuck_after, model_session.stack(),
            )  # fmt: skip
            with trio.CancelScope(shield=True):
                await unwound.wait()
            services.telemetry.step_stuck(session_id, False)
