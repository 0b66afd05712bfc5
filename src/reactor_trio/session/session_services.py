"""What a server gives each of its sessions: the loaded model, the settings, and functions that count and report."""

from __future__ import annotations

import msgspec

from reactor_trio.concurrency import FailureLog
from reactor_trio.configuration.settings import Settings
from reactor_trio.media import Worker
from reactor_trio.placement.placement import Placement
from reactor_trio.session.upload_store import Disk
from reactor_trio.telemetry import Telemetry


class SessionServices(msgspec.Struct, frozen=True):
    """What each session needs of its server.

    Attributes:
        placement: the loaded model.
        settings: of the server.
        debug: whether clients receive the text of an author's exception.
        disk: writes and reads uploaded files.
        failures: logs the exceptions of author code that end a session.
        telemetry: counts and traces what happens.
        worker: encodes and decodes the pictures of moments.
    """

    placement: Placement
    settings: Settings
    debug: bool
    disk: Disk
    failures: FailureLog
    telemetry: Telemetry
    worker: Worker
