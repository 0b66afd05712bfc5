"""The measurements of a load test: one record for each client, and the samples of all clients together.

A picture is *late* when it comes more than two intervals after the one before. The interval is the model's own: the
difference of their `pts`, divided by the number of pictures that the model made in between. So a model that changes its rate
or seldom makes a picture causes no late pictures, but pictures that the server drops do.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import anyio

from reactor_trio.client.session_events import CommandAnswered, Commanded, Received, TextEvent
from reactor_trio.client.statistics import CommandMeter
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.loadtest.plan import Visit
from reactor_trio.loadtest.samples import Samples
from reactor_trio.protocol import close_code
from reactor_trio.protocol.reasons import ENDS_WITHOUT_FAULT

#: the state of a client's visit: two while it goes on, then how it ended
Outcome = Literal["asking", "watching", "left", "vanished", "gave_up", "refused", "ended", "failed", "interrupted"]
#: a picture is late after this many intervals
LATE = 2
#: The figures, each with its samples, in seconds except `fps`. "last picture to end" is that of a session: only this figure
#: shows a picture that freezes until the end. "arrival delay" is how much later than planned a client arrived, because of
#: `at_once` or of a busy processor.
FIGURES = (
    "admission", "first picture", "fps", "between pictures", "last picture to end", "command to ack", "command to picture",
    "arrival delay",
)  # fmt: skip
VIEWERS_FIGURES = ("viewers' fps", "viewers' between pictures")


class Ledger:
    """The figures of a load test until now. Times are in seconds on the clock of `anyio.current_time()`."""

    def __init__(self) -> None:
        #: one for each client in the order of arrival, without viewers
        self.records: list[VisitRecord] = []
        self.figures = {name: Samples() for name in (*FIGURES, *VIEWERS_FIGURES)}
        #: errors by kind
        self.errors: Counter[str] = Counter()
        #: refusals by HTTP status or WebSocket close code, the server's text, and its code for programs
        self.refusals: Counter[tuple[int, str, str | None]] = Counter()
        self.commands: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        #: commands that are not sent, and why
        self.left_out: dict[str, str] = {}

    def outcomes(self) -> Counter[str]:
        """Return how many clients have each outcome."""
        return Counter(record.outcome for record in self.records)

    def begin(self, visit: Visit, delay: float) -> VisitRecord:
        """Add a client that arrived `delay` seconds later than planned."""
        self.figures["arrival delay"].add(delay)
        record = VisitRecord(self, visit, anyio.current_time())
        self.records.append(record)
        return record

    def refuse(self, refused: ConnectionRefused | SessionEnded) -> None:
        """Count a refused client or viewer: before the upgrade by HTTP, or after it by a close."""
        if isinstance(refused, ConnectionRefused):
            self.refusals[refused.status, refused.message, refused.code] += 1
        else:
            self.refusals[close_code("no_room"), refused.reason, refused.code] += 1

    def interrupt(self) -> None:
        """The load test ends early: mark the clients that have not finished as interrupted."""
        for record in self.records:
            record.end("interrupted")


class PictureMeter:
    """The pictures that one client received, on the video track whose packet comes first.

    Args:
        intervals: gets the seconds between two pictures.
        counts: counts `pictures`, `late`, `missing` and `bytes`, with `prefix` before each name.
    """

    def __init__(self, intervals: Samples, counts: Counter[str], prefix: str = "") -> None:
        self._intervals = intervals
        self._counts = counts
        self._prefix = prefix
        self._track: int | None = None
        self._last_seq = self._last_pts = 0
        self.number = self.late = self.missing = 0
        self.worst = 0.0
        self.first_at: float | None = None
        self.last_at: float | None = None

    def take(self, received: TextEvent | Received | Commanded) -> None:
        """Measure a packet of any track. Other events are ignored."""
        if not isinstance(received, Received):
            return
        packet = received.packet
        self._counts[f"{self._prefix}bytes"] += packet.payload.nbytes
        if received.track.kind != "video" or self._track not in (None, packet.track):
            return
        if self.last_at is None:
            self._track, self.first_at = packet.track, received.received_at
        elif packet.seq > self._last_seq:
            self._measure(received.received_at - self.last_at, packet.seq - self._last_seq, packet.pts_us - self._last_pts)
        self.last_at = received.received_at
        self._last_seq, self._last_pts = packet.seq, packet.pts_us
        self.number += 1
        self._counts[f"{self._prefix}pictures"] += 1

    @property
    def fps(self) -> float | None:
        """Pictures per second, from the first to the last; None for fewer than two."""
        if self.first_at is None or self.last_at is None or self.last_at <= self.first_at:
            return None
        return (self.number - 1) / (self.last_at - self.first_at)

    def _measure(self, interval: float, steps: int, pts_us: int) -> None:
        self._intervals.add(interval)
        self.worst = max(self.worst, interval)
        self.missing += steps - 1
        self._counts[f"{self._prefix}missing"] += steps - 1
        if pts_us > 0 and interval > LATE * pts_us / steps / 1e6:
            self.late += 1
            self._counts[f"{self._prefix}late"] += 1


class VisitRecord:
    """One client, from its arrival to its end."""

    def __init__(self, ledger: Ledger, visit: Visit, now: float) -> None:
        self._ledger = ledger
        self._figures = ledger.figures
        self._commands = CommandMeter(self._figures["command to ack"].add, self._figures["command to picture"].add)
        self.visit = visit
        self.asked_at = now
        self.admitted_at: float | None = None
        self.ended_at: float | None = None
        self.outcome: Outcome = "asking"
        #: the server's end reason, or the kind of error; empty for other outcomes
        self.reason = ""
        self.position = 0
        self.refusals = 0
        self.pictures = PictureMeter(self._figures["between pictures"], ledger.counts)

    def queued(self, position: int, _total: int) -> None:
        """The client waits in the server's queue."""
        self.position = max(self.position, position)

    def refused(self, refused: ConnectionRefused | SessionEnded) -> None:
        """The server refused the client."""
        self.refusals += 1
        self._ledger.refuse(refused)

    def admitted(self) -> None:
        """The client's session has begun."""
        self.admitted_at, self.outcome = anyio.current_time(), "watching"
        self._figures["admission"].add(self.admitted_at - self.asked_at)

    def see(self, event: TextEvent | Received | Commanded) -> None:
        """Measure an event of the client."""
        match event:
            case Received(packet, track):
                first = self.pictures.first_at is None
                self.pictures.take(event)
                if track.kind == "video":
                    if first:
                        assert self.admitted_at is not None, "packets come after the welcome"
                        self._figures["first picture"].add(event.received_at - self.admitted_at)
                    if packet.command is not None:
                        self._commands.pictured(packet.command, event.received_at)
            case Commanded(number):
                self._commands.sent(number, anyio.current_time())
                self._ledger.commands["sent"] += 1
            case CommandAnswered(number, _, error) if self._commands.answered(number, anyio.current_time(), error is None):
                self._ledger.commands["applied" if error is None else "refused"] += 1
                if error is not None:
                    self._ledger.errors[f"command {error.code}"] += 1

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Record how the visit ended. Only the first outcome counts."""
        if self.outcome not in ("asking", "watching"):
            return
        self.outcome, self.reason, self.ended_at = outcome, reason, anyio.current_time()
        if (fps := self.pictures.fps) is not None:
            self._figures["fps"].add(fps)
        if self.admitted_at is not None:
            self._ledger.counts["sessions"] += 1
            if self.pictures.last_at is None:
                self._ledger.counts["without a picture"] += 1
            else:
                self._figures["last picture to end"].add(self.ended_at - self.pictures.last_at)
        if outcome in ("failed", "refused") or (outcome == "ended" and reason not in ENDS_WITHOUT_FAULT):
            self._ledger.errors[reason] += 1
