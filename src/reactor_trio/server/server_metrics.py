"""The telemetry of one server: its counters, and the traces of its commands.

Every name of a metric starts with `reactor_`; every label is bounded. Counting only adds to plain numbers
(`edge.metric_families`).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, get_args

import trio

from reactor_trio.connection.outgoing_frames import CodedFrame
from reactor_trio.edge.metric_families import Buckets, counter, gauge, histogram
from reactor_trio.edge.request_metrics import RequestMetrics
from reactor_trio.protocol.reasons import END_REASONS, EndReason
from reactor_trio.server.run_facts import installed_version
from reactor_trio.server.server_facts import ServerFacts
from reactor_trio.server.tracing import Tracing
from reactor_trio.session import SESSION_OVER, Session
from reactor_trio.telemetry import CommandRecord, Telemetry

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_REASONS = {
    "input": ("not_taken", "refused", "overflow", "no_keyframe", "client_left", "evicted", "superseded", "unread"),
    "model": ("no_client", "incomplete"),
    "buffer": ("full", "flushed", "cancelled", "session_over", "held"),
    "session": ("no_viewer",),
    "lane": ("superseded", "late", "thinned", "gated", "encoder_failed", "audio_overflow", "client_left"),
    "recording": (
        "before_keyframe", "before_picture", "no_picture", "changed", "disk_too_slow", "until_keyframe", "failed",
        "timeline_full",
    ),
}  # fmt: skip
#: Where a frame can be dropped, and why.
DROPS = tuple((place, reason) for place, reasons in _REASONS.items() for reason in reasons)

#: How an upload ended: stored; refused for its head or a limit; cut short, too slow or of another size; not written;
#: ended with its session.
UploadOutcome = Literal["stored", "refused", "incomplete", "failed", "session_over"]

#: Parts of the time from a command to its picture: until the step that saw it began; that step; until encoding began;
#: encoding; to the client and back; what the client held it for; and all of it.
LATENCY_PARTS = ("wait", "step", "queue", "encode", "network", "decode", "total")

#: State of the model, as in `/health`.
ModelState = Literal["loading", "ready", "draining", "failed", "stuck"]

#: How a command ended: its handler ran or its field was set; a check or the handler refused it; its handler raised an
#: exception other than CommandError; its session ended first.
CommandOutcome = Literal["applied", "refused", "failed", "discarded"]
_OUTCOMES: dict[str | None, CommandOutcome] = {None: "applied", "internal_error": "failed", SESSION_OVER: "discarded"}

#: Codecs; any other name counts as "other".
CODECS = ("raw", "jpeg", "h264", "lossless", "vp8", "vp9", "av1", "pcm_s16le", "opus", "other")

_LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
_INTERVAL = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0)
_STEP = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_ENCODING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)
_DURATION = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)
_LATENESS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Metrics(RequestMetrics, Telemetry):
    """Counts what sessions and connections report, and traces their commands.

    Args:
        tracing: makes spans of commands; None: the server traces nothing.
        away: returns how many sessions have a client that is disconnected and may come back.
    """

    def __init__(self, facts: ServerFacts, tracing: Tracing | None = None, away: Callable[[], int] = int) -> None:
        super().__init__()
        self._away = away
        self._load_seconds = 0.0
        self.tracing = tracing
        self._facts = facts
        self._restarts = 0
        self._resumed = self._missed = 0
        self._handed = self._sent = self._bytes = self._underruns = 0
        self._dropped = dict.fromkeys(DROPS, 0)
        self._ended: dict[EndReason, int] = dict.fromkeys(END_REASONS, 0)
        self._uploads: dict[UploadOutcome, int] = dict.fromkeys(get_args(UploadOutcome), 0)
        self._upload_bytes = 0
        self._commands: dict[CommandOutcome, int] = dict.fromkeys(get_args(CommandOutcome), 0)
        self._lateness = Buckets(_LATENESS)
        self._intervals = Buckets(_INTERVAL)
        self._steps = Buckets(_STEP)
        self._command_waits = Buckets(_LATENCY)
        self._durations = Buckets(_DURATION)
        self._encodings = {codec: Buckets(_ENCODING) for codec in CODECS}
        self._latencies = {part: Buckets(_LATENCY) for part in LATENCY_PARTS}

    def loading(self, fraction: float | None, text: str) -> None:
        """See `Telemetry`."""
        self._facts.progress.report(fraction, text)

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """See `Telemetry`."""
        self._dropped[place, reason] += frames

    def drops(self) -> dict[tuple[str, str], int]:
        """Return the number of frames dropped so far, by place and reason, without zeros."""
        return {where: frames for where, frames in self._dropped.items() if frames}

    def handed(self, frames: int, lateness: float, interval: float | None, step: float | None) -> None:
        """See `Telemetry`."""
        self._handed += frames
        self._lateness.add(max(0.0, lateness))
        if interval is not None:
            self._intervals.add(interval)
        if step is not None:
            self._steps.add(step)

    def encoded(self, codec: str, seconds: float) -> None:
        """See `Telemetry`."""
        self._encodings.get(codec, self._encodings["other"]).add(seconds)

    def commanded(self, command: CommandRecord) -> None:
        """See `Telemetry`."""
        self._commands[_OUTCOMES.get(command.code, "refused")] += 1
        self._command_waits.add(command.answered - command.at)
        if self.tracing is not None:
            self.tracing.commanded(command)

    def pictured(self, client: int, frame: CodedFrame) -> None:
        """See `Telemetry`."""
        if self.tracing is not None:
            self.tracing.pictured(client, frame)

    def latency(self, part: str, seconds: float) -> None:
        """See `Telemetry`."""
        self._latencies[part].add(seconds)

    def underrun(self) -> None:
        """See `Telemetry`."""
        self._underruns += 1

    def sent(self, frames: int, size: int) -> None:
        """See `Telemetry`."""
        self._sent += frames
        self._bytes += size

    def resumed(self, missed: int) -> None:
        """A client has resumed its session; `missed` messages to it are lost."""
        self._resumed += 1
        self._missed += missed

    def author_code_late(self, session_id: str, what: str, since: float) -> None:
        """See `Telemetry`."""
        self._facts.health.code_late(session_id, what, since)

    def stepped(self) -> None:
        """See `Telemetry`."""
        self._facts.health.has_stepped = True

    def step_stuck(self, session_id: str, stuck: bool) -> None:
        """See `Telemetry`."""
        self._facts.health.step_stuck(session_id, stuck)

    def session_over(self, session: Session, reason: EndReason) -> None:
        """A session has ended."""
        self._ended[reason] += 1
        self._durations.add(trio.current_time() - session.began)
        if self.tracing is not None:
            self.tracing.session_over(session.controller)

    def loaded(self, seconds: float) -> None:
        """The model is loaded: import and `load` took so long."""
        self._load_seconds = seconds

    def model_restarted(self) -> None:
        """The model has ended, and the server loads it again."""
        self._restarts += 1
        self._facts.health.has_stepped = False

    def uploaded(self, outcome: UploadOutcome, size: int) -> None:
        """An upload is over; `size` bytes arrived."""
        self._uploads[outcome] += 1
        self._upload_bytes += size

    def collect(self) -> Iterator[Metric]:
        """Yield all counters as metric families, for the registry."""
        yield from self._counters()
        yield from self.families()
        yield from self._gauges()
        yield from self._histograms()

    def _counters(self) -> Iterator[Metric]:
        yield counter("reactor_frames_handed", "Frames shown, one for each track", self._handed)
        yield counter("reactor_frames_sent", "Frames written to clients", self._sent)
        yield counter("reactor_media_bytes_sent", "Bytes of frames written to clients", self._bytes)
        yield counter("reactor_sessions_resumed", "Sessions resumed by a client that was disconnected", self._resumed)
        yield counter("reactor_messages_missed", "Messages lost to clients that resumed their session", self._missed)
        yield counter("reactor_underruns", "Times that playout of sound waited for the model", self._underruns)
        yield counter("reactor_model_restarts", "Times that the model ended and was loaded again", self._restarts)
        yield counter("reactor_frames_dropped", "Frames dropped, by place and reason", self._dropped, "place reason")
        yield counter("reactor_upload_bytes", "Bytes of uploads received", self._upload_bytes)
        yield counter("reactor_sessions_ended", "Sessions that ended, by end reason", self._ended, "reason")
        yield counter("reactor_commands", "Commands that are over, by outcome", self._commands, "outcome")
        yield counter("reactor_uploads", "Uploads that are over, by outcome", self._uploads, "outcome")

    def _gauges(self) -> Iterator[Metric]:
        admission, phase, names = self._facts.admission, self._facts.phase, get_args(ModelState)
        yield gauge("reactor_sessions_live", "Sessions that run now", admission.live)
        yield gauge("reactor_sessions_away", "Sessions whose client is disconnected and may resume", self._away())
        yield gauge("reactor_clients_waiting", "Clients in the queue", admission.waiting)
        yield gauge("reactor_model_ready", "1 while a model is loaded and alive, else 0", int(phase == "ready"))
        now = "stuck" if self._facts.health.hangs else phase if phase in names else "draining"
        state = {name: int(name == now) for name in names}
        yield gauge("reactor_model_state", "1 for the model's present state, else 0", state, "state")
        yield gauge("reactor_model_load_seconds", "Duration of the import of the model and of load()", self._load_seconds)
        build = installed_version("reactor-trio") or "unknown", platform.python_version(), self._facts.name
        yield gauge("reactor_build_info", "1, with versions as labels", {build: 1}, "version python model")

    def _histograms(self) -> Iterator[Metric]:
        lateness = "Delay of frames after their due time"
        yield histogram("reactor_emission_lateness_seconds", lateness, self._lateness)
        yield histogram("reactor_frame_interval_seconds", "From one frame shown to the next", self._intervals)
        yield histogram("reactor_step_seconds", "Duration of a model step, of models that report it", self._steps)
        yield histogram("reactor_command_wait_seconds", "From a command's arrival to its answer", self._command_waits)
        yield histogram("reactor_session_seconds", "Duration of sessions", self._durations)
        encoding = "Encoding one frame, the wait for a worker thread included"
        yield histogram("reactor_encode_seconds", encoding, self._encodings, "codec")
        yield histogram(
            "reactor_command_to_picture_seconds",
            "From a command's arrival to its first picture decoded at the controlling client, in parts; "
            "the network part is both ways, and known only of clients that send feedback",
            self._latencies, "part",
        )  # fmt: skip
