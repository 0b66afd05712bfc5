"""Phases of a server as an ordered journal, which a supervisor can read on from where it stopped."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

Phase = Literal["loading", "ready", "draining", "drained", "stopped", "failed"]

_NEXT: dict[Phase, tuple[Phase, ...]] = {
    "loading": ("ready", "stopped", "failed"),
    "ready": ("loading", "draining", "stopped", "failed"),
    "draining": ("drained", "stopped", "failed"),
    "drained": ("stopped", "failed"),
    "stopped": (),
    "failed": ("stopped",),
}


@dataclass(frozen=True, slots=True)
class PhaseEntry:
    """One entry: its number from 1, the phase entered, `trio.current_time()` in seconds, and why."""

    seq: int
    phase: Phase
    at: float
    reason: str = ""


class Journal:
    """The phases of one server, newest last; keeps the last `limit`."""

    def __init__(self, now: float, limit: int = 256) -> None:
        self._entries: deque[PhaseEntry] = deque([PhaseEntry(1, "loading", now)], maxlen=limit)

    @property
    def phase(self) -> Phase:
        """The phase the server is in."""
        return self._entries[-1].phase

    @property
    def reason(self) -> str:
        """Why it is in that phase."""
        return self._entries[-1].reason

    def enter(self, phase: Phase, now: float, reason: str = "") -> bool:
        """Note that the server entered `phase`; False if it is there already. Raises ValueError for a step back."""
        if phase == self.phase:
            return False
        if phase not in _NEXT[self.phase]:
            raise ValueError(f"a server cannot go from {self.phase} to {phase}")
        self._entries.append(PhaseEntry(self._entries[-1].seq + 1, phase, now, reason))
        return True

    def after(self, seq: int) -> list[PhaseEntry]:
        """The entries with a number above `seq`."""
        return [entry for entry in self._entries if entry.seq > seq]
