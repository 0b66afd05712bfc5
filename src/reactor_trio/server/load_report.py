"""What a server tells a gate about its load: advice, by which nobody is admitted.

A report is old when it is read; slots are counted by `Admission` alone, at the server that has them.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from reactor_trio.admission import Phase

if TYPE_CHECKING:
    from reactor_trio.server.runtime import Runtime


_encoder = msgspec.json.Encoder(enc_hook=lambda value: type(value).__name__, order="deterministic")


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one server at one moment.

    Attributes:
        version: of this struct.
        boot_id: of the process, another after each start.
        seq: counts the reports of this process, from 1.
        phase: what the server is in.
        slots, reserved, live, waiting: places, those given and not claimed, those with a session, clients in its queue.
        fps: frames shown in a second since the report before, one for each output track.
        step: seconds that 95 of 100 steps since the report before took at most, to the width of a bucket of
            `reactor_step_seconds`; None if there was none.
        late: seconds by which this report is late because the I/O loop was busy.
        gpu_memory: bytes in use on the card that the process works on; None if it works on none.
        model, digest: the served model's name, and a digest of what it was loaded with: servers whose digests differ do not
            serve the same.
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
    gpu_memory: int | None
    model: str
    digest: str


class LoadReporter:
    """Makes the reports of one server."""

    def __init__(self, runtime: Runtime, now: Callable[[], float]) -> None:
        self.boot_id = secrets.token_hex(8)
        self._runtime = runtime
        self._now = now
        self._seq = 0
        self._before = (now(), 0, runtime.metrics.steps.counts)

    def report(self, late: float = 0.0) -> LoadReport:
        """The load now; rates are since the report before."""
        runtime, admission, metrics = self._runtime, self._runtime.room.admission, self._runtime.metrics
        self._seq += 1
        at, frames, steps = self._before
        now, shown = self._now(), metrics.frames_handed
        self._before = now, shown, metrics.steps.counts
        return LoadReport(
            boot_id=self.boot_id, seq=self._seq, phase=runtime.journal.phase, slots=admission.slots,
            reserved=admission.reserved, live=admission.live, waiting=admission.waiting,
            fps=(shown - frames) / (now - at) if now > at else 0.0,
            step=metrics.steps.percentile(0.95, since=steps), late=late, gpu_memory=_gpu_memory(),
            model=runtime.name, digest=_digest(runtime.name, runtime.config),
        )  # fmt: skip


def _gpu_memory() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def _digest(name: str, config: dict[str, Any]) -> str:
    """Of what plain values there are; what is no plain value counts by its type."""
    plain = _encoder.encode([name, config])
    return hashlib.sha256(plain).hexdigest()[:16]
