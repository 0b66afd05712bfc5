"""What the server counts, in Prometheus' exposition format; every name starts with `reactor_`, every label is bounded.

Counting happens for each frame on the I/O loop, so it is adding to plain numbers; they become metrics when asked for. The
library that writes them brings an HTTP server along, and being ready does not wait for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, cast, get_args

from reactor_trio.protocol.reasons import END_REASONS, EndReason

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

#: Where a frame can be dropped, and why.
DROPS = (
    ("input", "not_taken"),
    ("input", "refused"),
    ("input", "overflow"),
    ("input", "no_keyframe"),
    ("input", "client_left"),
    ("input", "evicted"),
    ("input", "superseded"),
    ("input", "unread"),
    ("model", "no_client"),
    ("buffer", "full"),
    ("buffer", "flushed"),
    ("buffer", "session_over"),
    ("session", "no_viewer"),
    ("lane", "superseded"),
    ("lane", "late"),
    ("lane", "thinned"),
    ("lane", "gated"),
    ("lane", "encoder_failed"),
    ("lane", "audio_overflow"),
    ("lane", "client_left"),
    ("recording", "before_keyframe"),
    ("recording", "before_picture"),
    ("recording", "no_picture"),
    ("recording", "changed"),
    ("recording", "disk_too_slow"),
    ("recording", "until_keyframe"),
    ("recording", "failed"),
)

#: What became of an upload: kept; refused by its head or a limit; cut short, too slow or of another size; not written;
#: ended with its session.
UploadOutcome = Literal["stored", "refused", "incomplete", "failed", "session_over"]

#: Parts of the time from a command to its picture: until the step that saw it began; that step; until encoding began;
#: encoding; to the client and back; what the client held it for; and all of it.
LATENCY_PARTS = ("wait", "step", "queue", "encode", "network", "decode", "total")

_LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
_LATENESS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Buckets:
    """A histogram with the given upper bounds, as plain numbers."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds, and how many values were not above each."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, accumulate(self._counts), strict=True))


class Metrics:
    """The counters of one server.

    Attributes:
        live, waiting, connections: sessions, clients in the queue and TCP connections there are now.
        ready: whether a model is loaded and alive.
    """

    def __init__(self) -> None:
        self.live = self.waiting = self.connections = 0
        self.ready = False
        self._handed = self._sent = self._bytes = self._underruns = 0
        self._dropped = dict.fromkeys(DROPS, 0)
        self._sessions: dict[EndReason, int] = dict.fromkeys(END_REASONS, 0)
        self._uploads: dict[UploadOutcome, int] = dict.fromkeys(get_args(UploadOutcome), 0)
        self._upload_bytes = 0
        self._lateness = Buckets(_LATENESS)
        self._latencies = {part: Buckets(_LATENCY) for part in LATENCY_PARTS}

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped, at a place and for a reason of `DROPS`."""
        self._dropped[place, reason] += frames

    def drops(self) -> dict[tuple[str, str], int]:
        """Frames dropped so far, by place and reason; what was not dropped is left out."""
        return {where: frames for where, frames in self._dropped.items() if frames}

    def handed(self, frames: int, lateness: float) -> None:
        """A bundle was shown, `lateness` seconds after its due time."""
        self._handed += frames
        self._lateness.add(max(0.0, lateness))

    def latency(self, part: str, seconds: float) -> None:
        """A part, of `LATENCY_PARTS`, of the time from a command to its picture."""
        self._latencies[part].add(seconds)

    def underrun(self) -> None:
        """Sound, and the picture with it, stood still because the model had not made more."""
        self._underruns += 1

    def sent(self, frames: int, size: int) -> None:
        """Frames were written to a client."""
        self._sent += frames
        self._bytes += size

    def session_ended(self, reason: EndReason) -> None:
        """A session is over."""
        self._sessions[reason] += 1

    def uploaded(self, outcome: UploadOutcome, size: int) -> None:
        """An upload is over, of which `size` bytes came."""
        self._uploads[outcome] += 1
        self._upload_bytes += size

    @cached_property
    def registry(self) -> CollectorRegistry:
        """The server's own, so that several can live in one process."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(cast("Collector", self))
        return registry

    def collect(self) -> Iterator[Metric]:
        """All of it as metric families, for the registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        yield CounterMetricFamily("reactor_frames_handed", "Frames shown, one for each track", self._handed)
        yield CounterMetricFamily("reactor_frames_sent", "Frames written to clients", self._sent)
        yield CounterMetricFamily("reactor_media_bytes_sent", "Bytes of frames written to clients", self._bytes)
        yield CounterMetricFamily("reactor_underruns", "Times that sound waited for the model", self._underruns)
        dropped = CounterMetricFamily("reactor_frames_dropped", "Frames dropped", labels=["place", "reason"])
        for where, frames in self._dropped.items():
            dropped.add_metric(where, frames)
        yield dropped
        sessions = CounterMetricFamily("reactor_sessions_ended", "Sessions that ended", labels=["reason"])
        for reason, count in self._sessions.items():
            sessions.add_metric([reason], count)
        yield sessions
        uploads = CounterMetricFamily("reactor_uploads", "Uploads, by what became of them", labels=["outcome"])
        for outcome, count in self._uploads.items():
            uploads.add_metric([outcome], count)
        yield uploads
        yield CounterMetricFamily("reactor_upload_bytes", "Bytes of uploads that came", self._upload_bytes)
        yield GaugeMetricFamily("reactor_sessions_live", "Sessions that run now", self.live)
        yield GaugeMetricFamily("reactor_clients_waiting", "Clients in the queue", self.waiting)
        yield GaugeMetricFamily("reactor_connections", "Open TCP connections", self.connections)
        yield GaugeMetricFamily("reactor_model_ready", "1 if a model is loaded and alive", int(self.ready))
        lateness = HistogramMetricFamily(
            "reactor_emission_lateness_seconds", "How long after its due time a frame was shown"
        )
        lateness.add_metric([], self._lateness.cumulative(), self._lateness.sum)
        yield lateness
        latencies = HistogramMetricFamily(
            "reactor_command_to_picture_seconds",
            "From a command's arrival to its first picture decoded at the controlling client, in parts; "
            "network is both ways, and known of clients that send feedback",
            labels=["part"],
        )
        for part, times in self._latencies.items():
            latencies.add_metric([part], times.cumulative(), times.sum)
        yield latencies

    def exposition(self) -> bytes:
        """All of it as text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
