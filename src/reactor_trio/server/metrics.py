"""What the server counts, in Prometheus' exposition format; every name starts with `reactor_`, every label is bounded."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from reactor_trio.protocol.reasons import END_REASONS, EndReason

#: Where a frame can be dropped, and why.
DROPS = (
    ("model", "no_client"),
    ("buffer", "full"),
    ("buffer", "flushed"),
    ("buffer", "session_over"),
    ("session", "no_viewer"),
    ("lane", "superseded"),
    ("lane", "audio_overflow"),
    ("lane", "client_left"),
)

_LATENESS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Metrics:
    """The counters of one server. Each server has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._handed = Counter("reactor_frames_handed", "Frames shown, one for each track", registry=self.registry)
        self._sent = Counter("reactor_frames_sent", "Frames written to clients", registry=self.registry)
        self._bytes = Counter("reactor_media_bytes_sent", "Bytes of frames written to clients", registry=self.registry)
        self._dropped = Counter(
            "reactor_frames_dropped", "Frames dropped, by place and reason", ["place", "reason"], registry=self.registry
        )
        self._sessions = Counter(
            "reactor_sessions_ended", "Sessions that ended, by reason", ["reason"], registry=self.registry
        )
        self._lateness = Histogram(
            "reactor_emission_lateness_seconds", "How long after its due time a frame was shown",
            buckets=_LATENESS, registry=self.registry,
        )  # fmt: skip
        self.live = Gauge("reactor_sessions_live", "Sessions that run now", registry=self.registry)
        self.waiting = Gauge("reactor_clients_waiting", "Clients in the queue", registry=self.registry)
        self.connections = Gauge("reactor_connections", "Open TCP connections", registry=self.registry)
        self.ready = Gauge("reactor_model_ready", "1 if a model is loaded and alive", registry=self.registry)
        for place, reason in DROPS:
            self._dropped.labels(place, reason)
        for end in END_REASONS:
            self._sessions.labels(end)

    def dropped(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped."""
        self._dropped.labels(place, reason).inc(frames)

    def drops(self) -> dict[tuple[str, str], int]:
        """Frames dropped so far, by place and reason; what was not dropped is left out."""
        samples = (sample for metric in self._dropped.collect() for sample in metric.samples)
        return {
            (sample.labels["place"], sample.labels["reason"]): int(sample.value)
            for sample in samples
            if sample.name.endswith("_total") and sample.value
        }

    def handed(self, frames: int, lateness: float) -> None:
        """A bundle was shown."""
        self._handed.inc(frames)
        self._lateness.observe(max(0.0, lateness))

    def sent(self, frames: int, size: int) -> None:
        """Frames were written to a client."""
        self._sent.inc(frames)
        self._bytes.inc(size)

    def session_ended(self, reason: EndReason) -> None:
        """A session is over."""
        self._sessions.labels(reason).inc()

    def exposition(self) -> bytes:
        """All of it as text."""
        return generate_latest(self.registry)
