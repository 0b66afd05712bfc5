"""A load's figures as one value: what is printed, written as JSON, and held against bars."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from reactor_trio.loadtest.load_records import Ledger, Record
from reactor_trio.loadtest.plan import Shape
from reactor_trio.loadtest.samples import Spread

#: What a server says to whom it refuses by a limit, and the setting that is the limit.
LIMITS = {
    "the server has all the connections that it may have": "runtime.limits.connections",
    "this address has all the connections that it may have": "runtime.limits.connections_per_address",
    "this address asks too often; wait a little": "runtime.limits.handshakes_per_minute",
    "this address has as many clients in the queue as it may have": "runtime.limits.waiting_per_address",
    "the server is full": "runtime.queue",
    "no_room": "runtime.queue",
}
#: those that hold because all clients of a load come from one machine
OF_ADDRESS = ("connections_per_address", "handshakes_per_minute", "waiting_per_address")


class Refusal(msgspec.Struct, frozen=True):
    """How often clients were refused so: by an HTTP status, or the close code of the WebSocket.

    `limit` names the setting behind it, if it is known.
    """

    status: int
    words: str
    times: int
    limit: str | None = None

    def __str__(self) -> str:
        return f"{'HTTP' if self.status < 1000 else 'close code'} {self.status}, {self.words}"


class Bars(msgspec.Struct, frozen=True):
    """What the figures must not exceed; times in seconds, None: anything goes."""

    max_errors: int | None = None
    p99_admission: float | None = None
    p99_first_picture: float | None = None


class Summary(msgspec.Struct, frozen=True):
    """The figures of one load.

    Attributes:
        shape: what was asked for.
        seconds: how long it took.
        clients: how many came; fewer than asked for if it was interrupted.
        outcomes: how many clients left, vanished, gave up ...
        ends: why the server ended sessions, by reason.
        figures: by name, in seconds, but `fps`.
        counts: sessions, viewers, pictures, bytes ...; `late` pictures came more than two intervals after the one before.
        commands: sent, applied, refused, and not sent because too many had no answer.
        left_out: commands that were never sent, and why.
        last_position: the last place in the queue that a client was told.
        errors: what went wrong, by kind.
        refusals: who was not let in.
        visits: each client.
    """

    shape: Shape
    seconds: float
    clients: int
    outcomes: dict[str, int]
    ends: dict[str, int]
    figures: dict[str, Spread]
    counts: dict[str, int]
    commands: dict[str, int]
    left_out: dict[str, str]
    last_position: int
    errors: dict[str, int]
    refusals: list[Refusal]
    visits: list[dict[str, Any]]

    @property
    def error_count(self) -> int:
        """All that went wrong."""
        return sum(self.errors.values())

    def missed(self, bars: Bars) -> list[str]:
        """The bars that were missed, in words. Of times that nobody saw none was met."""
        lines = []
        if bars.max_errors is not None and self.error_count > bars.max_errors:
            lines.append(f"{self.error_count} errors, at most {bars.max_errors} were allowed")
        for name, most in (("admission", bars.p99_admission), ("first picture", bars.p99_first_picture)):
            if most is None:
                continue
            p99 = self.figures[name].p99
            if p99 is None:
                lines.append(f"{name}: nobody had any, its p99 was to be at most {most:g} s")
            elif p99 > most:
                lines.append(f"{name}: p99 {p99:.3f} s, at most {most:g} s was allowed")
        return lines

    def advice(self) -> list[str]:
        """What to change in the server's manifest where its limits, and not its power, refused clients."""
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
    """The figures until now; `seconds` have passed since the begin."""
    figures = {
        "admission": ledger.admission, "first picture": ledger.first_picture, "fps": ledger.fps,
        "between pictures": ledger.intervals, "last picture to end": ledger.silence,
        "command to ack": ledger.command_to_ack, "command to picture": ledger.command_to_picture,
        "arrival delay": ledger.arrival_delays,
    }  # fmt: skip
    if shape.viewers:
        figures |= {"viewers' fps": ledger.viewers_fps, "viewers' between pictures": ledger.viewers_intervals}
    return Summary(
        shape, seconds, len(ledger.records), dict(ledger.outcomes()),
        dict(Counter(record.reason for record in ledger.records if record.outcome == "ended")),
        {name: samples.spread() for name, samples in figures.items()},
        dict(ledger.counts), dict(ledger.commands), dict(ledger.left_out), ledger.last_position, dict(ledger.errors),
        [Refusal(status, words, times, LIMITS.get(words)) for (status, words), times in ledger.refusals.most_common()],
        [_visit(record) for record in ledger.records],
    )  # fmt: skip


def _visit(record: Record) -> dict[str, Any]:
    """One client for JSON; times in seconds from its arrival."""
    pictures, at = record.pictures, record.asked_at

    def since(moment: float | None) -> float | None:
        return None if moment is None else moment - at

    return {
        "number": record.visit.number, "planned_at": record.visit.at, "planned_length": record.visit.length,
        "outcome": record.outcome, "reason": record.reason, "admitted": since(record.let_in_at),
        "first_picture": since(pictures.first_at), "ended": since(record.ended_at), "position": record.position,
        "refusals": record.refusals, "pictures": pictures.number, "fps": pictures.fps, "late": pictures.late,
        "missing": pictures.missing, "worst_gap": pictures.worst,
    }  # fmt: skip
