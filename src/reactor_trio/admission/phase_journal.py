"""`PhaseJournal`: the phases of a server, as a table, and the numbered list of the phases that it has entered.

| phase | means | next |
|---|---|---|
| `loading` | the model is loaded, or loaded again; clients that wait go on waiting | `ready`, `failed`, `stopped` |
| `ready` | clients are admitted | `loading`, `draining`, `failed`, `stopped` |
| `draining` | no client is admitted; sessions end in order | `drained`, `failed`, `stopped` |
| `drained` | no client is left, or the time for them is over | `failed`, `stopped` |
| `failed` | the model has ended for good; the server ends with its error | `stopped` |
| `stopped` | the server has ended | |

A supervisor can go on reading at the entry where it stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

Phase = Literal["loading", "ready", "draining", "drained", "stopped", "failed"]

_NEXT: dict[Phase, tuple[Phase, ...]] = {
    "loading": ("ready", "failed", "stopped"),
    "ready": ("loading", "draining", "failed", "stopped"),
    "draining": ("drained", "failed", "stopped"),
    "drained": ("failed", "stopped"),
    "failed": ("stopped",),
    "stopped": (),
}


class PhaseEntry(msgspec.Struct, frozen=True):
    """One entry: its number from 1, the new phase, its time as `trio.current_time()` in seconds, and the reason."""

    seq: int
    phase: Phase
    at: float
    reason: str = ""


class PhaseJournal:
    """The latest `limit` phases of one server, the newest last. The first one is `loading`.

    Args:
        now: when that begins.
        entered: called with each phase when the server enters it, also with the first one.
    """

    def __init__(self, now: float, entered: Callable[[Phase], object] = lambda _phase: None, limit: int = 256) -> None:
        self._entries: deque[PhaseEntry] = deque([PhaseEntry(1, "loading", now)], maxlen=limit)
        self._entered = entered
        entered("loading")

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._entries[-1].phase

    @property
    def reason(self) -> str:
        """The reason for the current phase."""
        return self._entries[-1].reason

    def enter(self, phase: Phase, now: float, reason: str = "") -> None:
        """Enter `phase`: the one way into a phase. Without effect in that phase.

        Raises ValueError if the table does not have it as a next one.
        """
        if phase == self.phase:
            return
        if phase not in _NEXT[self.phase]:
            raise ValueError(f"a server cannot go from {self.phase} to {phase}")
        self._entries.append(PhaseEntry(self._entries[-1].seq + 1, phase, now, reason))
        self._entered(phase)

    def after(self, seq: int) -> list[PhaseEntry]:
        """Return the entries with a number above `seq`. For any thread: `list` copies in one step of the interpreter."""
        return [entry for entry in list(self._entries) if entry.seq > seq]
