"""What a server gives each of its sessions: the loaded model, the settings, and functions that count and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from reactor_trio.concurrency import FailureLog
from reactor_trio.configuration.settings import Settings
from reactor_trio.placement.placement import Placement
from reactor_trio.session.upload_store import Disk
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.session.session_worlds import ModelWorlds


class SessionServices(msgspec.Struct, frozen=True):
    """What each session needs of its server.

    Attributes:
        placement: the loaded model.
        settings: of the server.
        debug: whether clients receive the text of an author's exception.
        disk: writes and reads uploaded files.
        failures: logs the exceptions of author code that end a session.
        telemetry: counts and traces what happens.
        worlds: what the worlds of its sessions have in common; None if the model saves none.
    """

    placement: Placement
    settings: Settings
    debug: bool
    disk: Disk
    failures: FailureLog
    telemetry: Telemetry
    worlds: ModelWorlds | None
