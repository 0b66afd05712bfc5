"""A load test's figures as one value, for the terminal, for JSON and for a check against bars."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from reactor_trio.loadtest.load_records import FIGURES, VIEWERS_FIGURES, Ledger, VisitRecord
from reactor_trio.loadtest.plan import Shape
from reactor_trio.loadtest.samples import Distribution
from reactor_trio.protocol.refusals import REFUSAL_CODES, REFUSALS

#: limits that a load test reaches because all its clients have one address
OF_ADDRESS = ("connections_per_address", "handshakes_per_minute", "http_per_minute", "waiting_per_address")


class Refusal(msgspec.Struct, frozen=True):
    """A kind of refusal, and how often it happened.

    Attributes:
        status: the HTTP status, or the close code of the WebSocket.
        words: the server's text.
        limit: the server's setting behind it, if it is known.
        code: the server's code of the refusal.
    """

    status: int
    words: str
    times: int
    limit: str | None = None
    code: str | None = None

    def __str__(self) -> str:
        return f"{'HTTP' if self.status < 1000 else 'close code'} {self.status}, {self.words}"


class Bars(msgspec.Struct, frozen=True):
    """Upper limits for the figures. Times are in seconds; None: no limit."""

    max_errors: int | None = None
    p99_admission: float | None = None
    p99_first_picture: float | None = None


class Summary(msgspec.Struct, frozen=True):
    """The figures of one load test.

    Attributes:
        shape: the plan.
        seconds: how long it took.
        clients: how many arrived; fewer than planned if it was interrupted.
        outcomes: number of clients by outcome (`left`, `vanished`, `gave_up` ...).
        ends: number of sessions that the server ended, by reason.
        figures: distributions by name, in seconds, except `fps`.
        counts: sessions, viewers, pictures, bytes ...; `late` pictures came more than two intervals after the one before.
        commands: sent, applied, refused, and not sent because too many were unanswered.
        left_out: commands that were never sent, and why.
        last_position: the longest queue position of any client.
        errors: number of errors by kind.
        refusals: refused clients by kind.
        visits: each client.
    """

    shape: Shape
    seconds: float
    clients: int
    outcomes: dict[str, int]
    ends: dict[str, int]
    figures: dict[str, Distribution]
    counts: dict[str, int]
    commands: dict[str, int]
    left_out: dict[str, str]
    last_position: int
    errors: dict[str, int]
    refusals: list[Refusal]
    visits: list[dict[str, Any]]

    @property
    def error_count(self) -> int:
        """Number of errors."""
        return sum(self.errors.values())

    def missed(self, bars: Bars) -> list[str]:
        """Return a line for each bar that was missed. A bar for a time without samples is missed."""
        lines = []
        if bars.max_errors is not None and self.error_count > bars.max_errors:
            lines.append(f"{self.error_count} errors, at most {bars.max_errors} were allowed")
        for name, most in (("admission", bars.p99_admission), ("first picture", bars.p99_first_picture)):
            if most is None:
                continue
            p99 = self.figures[name].p99
            if p99 is None:
                lines.append(f"{name}: no samples; its p99 must be at most {most:g} s")
            elif p99 > most:
                lines.append(f"{name}: p99 {p99:.3f} s, at most {most:g} s was allowed")
        return lines

    def advice(self) -> list[str]:
        """Return which settings to change if the server's limits, and not its speed, refused clients."""
        lines = []
        for refusal in self.refusals:
            if refusal.limit is None:
                continue
            why = " (all clients of a load test come from one address)" if refusal.limit.endswith(OF_ADDRESS) else ""
            lines.append(
                f"the server refused {refusal.times} times ({refusal}): raise {refusal.limit} in its reactor.yaml{why}"
            )
        return lines


def summarise(ledger: Ledger, shape: Shape, seconds: float) -> Summary:
    """Return the figures until now, `seconds` after the start."""
    names = FIGURES + (VIEWERS_FIGURES if shape.viewers else ())
    last_position = max((record.position for record in ledger.records), default=0)
    return Summary(
        shape, seconds, len(ledger.records), dict(ledger.outcomes()),
        dict(Counter(record.reason for record in ledger.records if record.outcome == "ended")),
        {name: ledger.figures[name].distribution() for name in names},
        dict(ledger.counts), dict(ledger.commands), dict(ledger.left_out), last_position, dict(ledger.errors),
        [
                Refusal(status, words, times, _setting(code), code)
                for (status, words, code), times in ledger.refusals.most_common()
            ],
        [_visit(record) for record in ledger.records],
    )  # fmt: skip


def _visit(record: VisitRecord) -> dict[str, Any]:
    """Return one client as JSON; times in seconds from its arrival."""
    pictures, at = record.pictures, record.asked_at

    def since(moment: float | None) -> float | None:
        return None if moment is None else moment - at

    return {
        "number": record.visit.number, "planned_at": record.visit.at, "planned_length": record.visit.length,
        "outcome": record.outcome, "reason": record.reason, "admitted": since(record.admitted_at),
        "first_picture": since(pictures.first_at), "ended": since(record.ended_at), "position": record.position,
        "refusals": record.refusals, "pictures": pictures.number, "fps": pictures.fps, "late": pictures.late,
        "missing": pictures.missing, "worst_gap": pictures.worst,
    }  # fmt: skip


def _setting(code: str | None) -> str | None:
    """The setting behind a refusal, if there is one."""
    kind = next((REFUSALS[known] for known in REFUSAL_CODES if known == code), None)
    return kind.setting or None if kind is not None else None
