"""The scopes that stop a driver and protect what it closes.

The runtime opens no scope around a step. An author may hold a nursery open across a yield, and the scope would then be left
in another step than it was entered in. So both scopes are entered before the generator exists, and left after it is closed.
They are armed later, by attribute.
"""

from __future__ import annotations

import trio

#: seconds in which each hook of a session's end, and the closing of an async generator, must end
CLOSE_TIMEOUT = 5.0


class DriverScopes:
    """The two scopes of one driver, on the model loop.

    Attributes:
        stop: shields the driver from the end of its session until it is cancelled.
        guard: once armed, shields the closing of author code, for `CLOSE_TIMEOUT` seconds.
    """

    def __init__(self) -> None:
        self.stop = trio.CancelScope(shield=True)
        self.guard = trio.CancelScope()

    def protect_closing(self) -> None:
        """Arm the guard, unless it is armed."""
        if not self.guard.shield:
            self.guard.shield, self.guard.deadline = True, trio.current_time() + CLOSE_TIMEOUT

    def step_was_cancelled(self) -> None:
        """A cancellation reaches an async step: if it is the session's end, the cleanup of the step may await."""
        if self.stop.cancel_called:
            self.protect_closing()
