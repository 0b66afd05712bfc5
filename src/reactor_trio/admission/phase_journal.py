"""`PhaseJournal`: the numbered list of a server's phases. A supervisor can go on reading at the entry where it stopped."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

Phase = Literal["loading", "ready", "draining", "drained", "stopped", "failed"]

_NEXT: dict[Phase, tuple[Phase, ...]] = {
    "loading": ("ready", "stopped", "failed"),
    "ready": ("loading", "draining", "stopped", "failed"),
    "draining": ("drained", "stopped", "failed"),
    "drained": ("stopped", "failed"),
    "stopped": (),
    "failed": ("stopped",),
}


class PhaseEntry(msgspec.Struct, frozen=True):
    """One entry: its number from 1, the new phase, its time as `trio.current_time()` in seconds, and the reason."""

    seq: int
    phase: Phase
    at: float
    reason: str = ""


class PhaseJournal:
    """The latest `limit` phases of one server, the newest last."""

    def __init__(self, now: float, limit: int = 256) -> None:
        self._entries: deque[PhaseEntry] = deque([PhaseEntry(1, "loading", now)], maxlen=limit)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._entries[-1].phase

    @property
    def reason(self) -> str:
        """The reason for the current phase."""
        return self._entries[-1].reason

    def enter(self, phase: Phase, now: float, reason: str = "") -> bool:
        """Enter `phase`. Return False if it is the current phase. Raises ValueError if the transition is not allowed."""
        if phase == self.phase:
            return False
        if phase not in _NEXT[self.phase]:
            raise ValueError(f"a server cannot go from {self.phase} to {phase}")
        self._entries.append(PhaseEntry(self._entries[-1].seq + 1, phase, now, reason))
        return True

    def after(self, seq: int) -> list[PhaseEntry]:
        """Return the entries with a number above `seq`."""
        return [entry for entry in self._entries if entry.seq > seq]
