"""What the runtime reports about itself: one method for each event, which the server counts and traces.

Sessions, connections and the model's side take one `Telemetry` and call it on the I/O loop. Its methods return at once and
never raise. This class ignores every event; `server.server_metrics.Metrics` is the one that serves `/metrics`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class CommandRecord(msgspec.Struct, frozen=True):
    """A command that is over.

    Attributes:
        session_id, client: the session and the number of the client that sent the command.
        at, answered: when it arrived, and when it was applied or refused, in `trio.current_time()` seconds.
        step: the first model step that sees it.
        code: why it was refused, or `session.SESSION_OVER`; None: it was applied.
        traceparent: the W3C trace context that the client sent with it.
    """

    session_id: str
    client: int
    name: str
    id: int | None
    at: float
    answered: float
    step: int
    code: str | None
    traceparent: str | None


class Telemetry:
    """Receives the events of one server and ignores them; subclasses override the methods that they need."""

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped, at a place and for a reason of `server.server_metrics.DROPS`."""

    def handed(self, frames: int, lateness: float, interval: float | None, step: float | None) -> None:
        """A bundle was shown, `lateness` seconds after its due time and `interval` seconds after the previous one, if any.

        `step`: seconds that its step took, if the bundle is the first one of that step and the model reports the duration.
        """

    def underrun(self) -> None:
        """Sound stopped, and the picture with it, because the model had not made the next block."""

    def encoded(self, codec: str, seconds: float) -> None:
        """A frame or a block of sound was encoded. `seconds` include the wait for a worker thread."""

    def sent(self, frames: int, size: int) -> None:
        """Frames of `size` bytes in all were written to a client."""

    def pictured(self, client: int, frame: Any) -> None:
        """A video frame was written, just now, to the socket of the client with this number.

        `frame` is a `connection.outgoing_frames.CodedFrame`, which this module, below the connections, cannot name.
        """

    def latency(self, part: str, seconds: float) -> None:
        """A part (`server.server_metrics.LATENCY_PARTS`) of the time from a command to its picture is known."""

    def commanded(self, command: CommandRecord) -> None:
        """A command was applied, refused or discarded."""

    def loading(self, fraction: float | None, text: str) -> None:
        """Author code reported how far the load of the model is; see `interface.progress`."""

    def stepped(self) -> None:
        """A session has made its first frame. What ran before the first such report since the load may have compiled."""

    def author_code_late(self, session_id: str, what: str, since: float) -> None:
        """Author code takes too long although its client is connected.

        `what` names the code; `since` is in `trio.current_time()` seconds. An empty `what`: that code has ended.
        """

    def step_stuck(self, session_id: str, stuck: bool) -> None:
        """A step outlives its session for too long (True), or has ended after all (False)."""
