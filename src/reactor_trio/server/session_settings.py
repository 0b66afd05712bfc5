"""What each session of a loaded model is given, by the settings."""

from __future__ import annotations

import math

from reactor_trio.concurrency import FailureLog
from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.placement import Placed
from reactor_trio.session import SessionServices
from reactor_trio.session.lifetime import TimeLimits
from reactor_trio.session.upload_store import Disk, UploadLimits
from reactor_trio.telemetry import Telemetry


def session_services(
    placed: Placed,
    settings: Settings,
    telemetry: Telemetry,
    *,
    debug: bool,
    disk: Disk,
    failures: FailureLog,
) -> SessionServices:
    """The other arguments are those of `SessionServices`."""
    limits, uploads = settings.limits, settings.uploads
    return SessionServices(
        model_name=placed.declaration.model.__name__, declaration=placed.declaration,
        open_model_session=placed.open_model_session,
        hold=settings.slow_client == "hold", debug=debug, stuck_after=settings.stuck_after,
        commands_per_second=limits.commands_per_second, pending_commands=limits.pending_commands,
        unanswered_commands=limits.unanswered_commands,
        uploads=UploadLimits(uploads.file_size, uploads.total_size, uploads.files, uploads.at_once, uploads.folder),
        disk=disk, failures=failures, telemetry=telemetry, moderate=placed.moderate,
        times=TimeLimits(limits.session_length or math.inf, limits.session_idle or math.inf, limits.end_warning),
    )  # fmt: skip
