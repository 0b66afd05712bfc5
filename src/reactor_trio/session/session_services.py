"""What a server gives each of its sessions: the loaded model, limits, and functions that count and report."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reactor_trio.concurrency import FailureLog
from reactor_trio.execution.model_session import ModelSession
from reactor_trio.execution.placement import Check
from reactor_trio.interface.declaration import Declaration
from reactor_trio.session.lifetime import TimeLimits
from reactor_trio.session.upload_store import Disk, UploadLimits
from reactor_trio.telemetry import Telemetry


class SessionServices(msgspec.Struct, frozen=True):
    """What each session needs of its server.

    Attributes:
        model_name: the model's class, for the log.
        open_model_session: makes the model's side of a session, given its id, and number and joining time of its client.
        hold: whether the model waits for slow clients.
        debug: whether clients receive the text of an author's exception.
        stuck_after: seconds after which a step that outlives its session is reported with its stack.
        moderate: checks the text in commands, None if nothing does.
        commands_per_second, pending_commands, unanswered_commands: limits of what one client may have under way.
        uploads, disk: what files a session may have, and how they are written and read.
        times: how long a session may last.
        failures: logs the exceptions of author code that end a session.
        telemetry: counts and traces what happens.
    """

    model_name: str
    declaration: Declaration
    open_model_session: Callable[[str, tuple[int, float]], ModelSession]
    hold: bool
    debug: bool
    stuck_after: float
    commands_per_second: float
    pending_commands: int
    unanswered_commands: int
    uploads: UploadLimits
    disk: Disk
    failures: FailureLog
    telemetry: Telemetry
    moderate: Check | None = None
    times: TimeLimits = TimeLimits()
