"""What a server tells a gate about its load: advice, by which nobody is admitted.

A report is old when it is read; slots are counted by `Admission` alone, at the server that has them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from reactor_trio.admission import Phase

if TYPE_CHECKING:
    from reactor_trio.server.runtime import Runtime


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one server at one moment.

    Attributes:
        version: of this struct.
        boot_id: of the process, another after each start.
        seq: counts the reports of this process, from 1.
        phase: what the server is in.
        slots, reserved, live, waiting: places, those given and not claimed, those with a session, clients in its queue.
        fps: frames shown in a second since the report before, one for each output track.
        step: mean seconds of the model's steps since the report before; None if there was none.
        late: seconds by which this report is late because the I/O loop was busy.
        model: the served model's name.
    """

    version: int = 1
    boot_id: str
    seq: int
    phase: Phase
    slots: int
    reserved: int
    live: int
    waiting: int
    fps: float
    step: float | None
    late: float
    model: str


class LoadReporter:
    """Makes the reports of one server."""

    def __init__(self, runtime: Runtime, now: Callable[[], float]) -> None:
        self.boot_id = secrets.token_hex(8)
        self._runtime = runtime
        self._now = now
        self._seq = 0
        self._before = (now(), 0, 0.0, 0)

    def report(self, late: float = 0.0) -> LoadReport:
        """The load now; rates are since the report before."""
        runtime, admission, metrics = self._runtime, self._runtime.room.admission, self._runtime.metrics
        self._seq += 1
        at, frames, seconds, steps = self._before
        self._before = now, shown, stepped, made = (self._now(), metrics.frames_handed, *metrics.steps)
        return LoadReport(
            boot_id=self.boot_id, seq=self._seq, phase=runtime.journal.phase, slots=admission.slots,
            reserved=admission.reserved, live=admission.live, waiting=admission.waiting,
            fps=(shown - frames) / (now - at) if now > at else 0.0,
            step=(stepped - seconds) / (made - steps) if made > steps else None, late=late, model=runtime.name,
        )  # fmt: skip
