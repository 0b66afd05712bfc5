"""What `serve` and the test kit give a `Runtime`: `ProcessParts`, which it uses, and `Observers`, which it calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from reactor_trio.admission import Phase
from reactor_trio.concurrency.free_memory import MemoryReclaimer
from reactor_trio.connection import ServedSession
from reactor_trio.media import Worker
from reactor_trio.server.tracing import Tracing
from reactor_trio.session.upload_store import Disk


@dataclass(frozen=True)
class ProcessParts:
    """What one process has for its server.

    Attributes:
        worker: runs encoders and decoders away from the loop.
        disk: writes and reads files away from the loop: uploads and recordings.
        free_memory: returns memory between sessions; None: nothing does.
        tracing: traces commands; None: the server traces nothing.
        lag: returns for how many seconds what the loop handles now may have waited for it (`concurrency.loop_lag`).
    """

    worker: Worker
    disk: Disk = trio.to_thread.run_sync
    free_memory: MemoryReclaimer | None = None
    tracing: Tracing | None = None
    lag: Callable[[], float] = float  # no seconds, as in virtual time


@dataclass(frozen=True)
class Observers:
    """Functions that a server calls.

    Attributes:
        on_phase: with each phase that the server enters (`admission.phase_journal` has the table).
        on_progress: with fraction and text of each `interface.progress` in the model's load.
        on_session: with each session that begins.
    """

    on_phase: Callable[[Phase], object] = lambda _phase: None
    on_progress: Callable[[float | None, str], object] = lambda _fraction, _text: None
    on_session: Callable[[ServedSession], object] = lambda _served: None


NO_OBSERVERS = Observers()
