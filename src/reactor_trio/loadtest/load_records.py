"""What the clients of a load saw: one record for each, and the samples of all together.

A picture is *late* when it comes more than two intervals after the one before. The interval is the model's own: the step of
`pts` between the two, by the number of pictures that the model made of it, so that neither a model that changes its rate nor
one that makes a picture only now and then is blamed for it, and what the server dropped is.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import anyio

from reactor_trio.client.session_protocol import Answered, Commanded, Received, TextEvent
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.loadtest.plan import Visit
from reactor_trio.loadtest.samples import Samples
from reactor_trio.protocol import close_code

#: how a client's visit ended, or where it is
Outcome = Literal["asking", "watching", "left", "vanished", "gave_up", "refused", "ended", "failed", "interrupted"]
#: ends by the server that are nobody's fault
POLITE = ("done", "client_left", "expired", "idle", "draining")
#: intervals after which a picture is late
LATE = 2
#: commands whose picture is waited for
UNSEEN = 1024


class Ledger:
    """The figures of a load until now. Times are in seconds on the clock of `anyio.current_time()`."""

    def __init__(self) -> None:
        #: one for each client that has come, in that order; viewers are not among them
        self.records: list[Record] = []
        self.admission = Samples()
        self.first_picture = Samples()
        self.fps = Samples()
        self.intervals = Samples()
        self.command_to_ack = Samples()
        self.command_to_picture = Samples()
        #: from a session's last picture to its end: a picture that stands still to the end shows nowhere else
        self.silence = Samples()
        self.viewers_fps = Samples()
        self.viewers_intervals = Samples()
        #: how much later than planned a client came, for want of room among those at once or of processor time
        self.arrival_delays = Samples()
        #: by kind: what went wrong
        self.errors: Counter[str] = Counter()
        #: refusals before the session, by HTTP status or WebSocket close code, and the server's words
        self.refusals: Counter[tuple[int, str]] = Counter()
        self.commands: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        #: the last place in the queue that a client was told
        self.last_position = 0
        #: commands of the server that are not sent, and why
        self.left_out: dict[str, str] = {}

    def outcomes(self) -> Counter[str]:
        """How many clients are where."""
        return Counter(record.outcome for record in self.records)

    def begin(self, visit: Visit, delay: float) -> Record:
        """A client has come, `delay` seconds later than planned."""
        self.arrival_delays.add(delay)
        record = Record(self, visit, anyio.current_time())
        self.records.append(record)
        return record

    def refuse(self, refused: ConnectionRefused | SessionEnded) -> None:
        """A client, or a viewer, was not let in: before the upgrade, or after it by one who was sooner."""
        if isinstance(refused, ConnectionRefused):
            self.refusals[refused.status, str(refused).partition(": ")[2]] += 1
        else:
            self.refusals[close_code("no_room"), refused.reason] += 1

    def fail(self, kind: str) -> None:
        """Something went wrong."""
        self.errors[kind] += 1

    def interrupt(self) -> None:
        """The load ends before its time; who is still there counts as interrupted."""
        for record in self.records:
            if record.outcome in ("asking", "watching"):
                record.end("interrupted")


class Pictures:
    """The pictures that one client was sent, on the first of its video tracks that comes.

    Args:
        intervals: takes the seconds between two.
        counts: takes `pictures`, `late`, `missing` and `bytes`.
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

    def take(self, received: Received) -> None:
        """A packet came, of whatever track."""
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
        """Pictures a second, from the first to the last; None of fewer than two."""
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


class Record:
    """One client, from the moment at which it came."""

    def __init__(self, ledger: Ledger, visit: Visit, now: float) -> None:
        self._ledger = ledger
        self._sent: dict[int, float] = {}
        self._unseen: dict[int, float] = {}
        self.visit = visit
        self.asked_at = now
        self.let_in_at: float | None = None
        self.ended_at: float | None = None
        self.outcome: Outcome = "asking"
        #: of an outcome that has one: the server's reason, or the kind of error
        self.reason = ""
        self.position = 0
        self.refusals = 0
        self.pictures = Pictures(ledger.intervals, ledger.counts)

    def queued(self, position: int, _total: int) -> None:
        """There is no room yet."""
        self.position = max(self.position, position)
        self._ledger.last_position = max(self._ledger.last_position, position)

    def refused(self, refused: ConnectionRefused | SessionEnded) -> None:
        """The server did not let it in."""
        self.refusals += 1
        self._ledger.refuse(refused)

    def let_in(self) -> None:
        """Its session has begun."""
        self.let_in_at, self.outcome = anyio.current_time(), "watching"
        self._ledger.admission.add(self.let_in_at - self.asked_at)

    def see(self, event: TextEvent | Received | Commanded) -> None:
        """Something came or goes."""
        match event:
            case Received(packet):
                self._see_packet(event, packet.command)
            case Commanded(number):
                self._sent[number] = self._unseen[number] = anyio.current_time()
                self._ledger.commands["sent"] += 1
                if len(self._unseen) > UNSEEN:  # there are no pictures, or they tell nothing of commands
                    del self._unseen[next(iter(self._unseen))]
            case Answered(number, _, error):
                if (sent_at := self._sent.pop(number, None)) is None:
                    return
                if error is None:
                    self._ledger.commands["applied"] += 1
                    self._ledger.command_to_ack.add(anyio.current_time() - sent_at)
                else:
                    self._unseen.pop(number, None)
                    self._ledger.commands["refused"] += 1
                    self._ledger.fail(f"command {error.code}")

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """It is over; only the first outcome counts."""
        if self.outcome not in ("asking", "watching"):
            return
        self.outcome, self.reason, self.ended_at = outcome, reason, anyio.current_time()
        if (fps := self.pictures.fps) is not None:
            self._ledger.fps.add(fps)
        if self.let_in_at is not None:
            self._ledger.counts["sessions"] += 1
            if self.pictures.last_at is None:
                self._ledger.counts["without a picture"] += 1
            else:
                self._ledger.silence.add(self.ended_at - self.pictures.last_at)
        if outcome == "failed" or (outcome == "ended" and reason not in POLITE):
            self._ledger.fail(reason)

    def _see_packet(self, received: Received, command: int | None) -> None:
        first = self.pictures.first_at is None
        self.pictures.take(received)
        if received.track.kind != "video":
            return
        if first:
            assert self.let_in_at is not None, "packets come after the welcome"
            self._ledger.first_picture.add(received.received_at - self.let_in_at)
        while command is not None and self._unseen and (number := next(iter(self._unseen))) <= command:
            self._ledger.command_to_picture.add(received.received_at - self._unseen.pop(number))
