"""`get_ctx()` of a blocking model: what the author's threads call, which crosses to the model loop (`blocking_driver`)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import trio

from reactor_trio.errors import OutputError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.interface.author_code import NamesLocation
from reactor_trio.interface.blocking_tracks import MAIN_TRACK, default_track
from reactor_trio.interface.declaration import BLOCKING_INPUT
from reactor_trio.interface.messages import plain
from reactor_trio.interface.profiling import Profiler, get_profiler
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.kinds.emitted_blocks import EmittedBlocks
from reactor_trio.media import Chunk, TrackPart, chunk_from_output, chunk_of_parts, part_of_track

#: Buckets that may wait for the data of their other tracks, and their bytes together; more are dropped, the oldest first.
OPEN_BUCKETS, OPEN_BYTES = 64, 256 * 1024 * 1024

#: The type of a message that is sent without one.
PLAIN_MESSAGE = "message"


class BlockingContext:
    """What `get_ctx()` gives; see `interface.context.Context`. The author's threads call it."""

    def __init__(self, session: DrivenSession, blocks: EmittedBlocks) -> None:
        self._session = session
        self._blocks = blocks
        self._outputs = session.declaration.outputs
        self._tracks = {spec.name: spec for spec in self._outputs[0].__reactor_tracks__}
        videos = [spec.name for spec in self._tracks.values() if spec.kind == "video"]
        first = MAIN_TRACK if MAIN_TRACK in self._tracks else next(iter([*videos, *self._tracks]))
        self._default_track = default_track(type(session.model)) or first
        input_class = session.declaration.inputs.get(BLOCKING_INPUT)
        self.inputs = () if input_class is None else input_class.__reactor_tracks__
        #: the newest frame of each track from the client
        self.newest: dict[str, Any] = {}
        self._buckets: dict[int, dict[str, TrackPart]] = {}
        self._open_bytes = 0
        self._counts = dict.fromkeys(self._tracks, 0)
        self._most_open = OPEN_BUCKETS
        #: of the buckets and the counts, which any thread of the author changes
        self._lock = threading.Lock()

    @property
    def _stop_evt(self) -> StopEvent:
        """Models of 0.x ask it whether they must stop."""
        return StopEvent(self)

    def should_stop(self) -> bool:
        """Whether the session is over."""
        return self._session.over

    def emit_block(self, frames: object) -> None:
        """Queue frames on the only video track, or black frames on each."""
        chunk: Chunk | None = None
        with NamesLocation():
            if frames is not None:
                chunk = self._checked(frames)
        self._push(chunk)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send JSON."""
        if not isinstance(message, Mapping):
            raise TypeError(f"send() takes a dict, not {type(message).__name__}")
        data = plain(dict(message), "send()")
        if set(data) == {"type", "data"} and isinstance(data["type"], str):
            type_, data = data["type"], data["data"]
        else:
            type_ = PLAIN_MESSAGE
        if type_.startswith("reactor."):
            raise ValueError(f"send(): a type that starts with 'reactor.' is the runtime's own: {type_!r}")
        self._cross(self._blocks.tell, type_, data)

    def disable_monitoring(self) -> None:
        """Say that the model pauses on purpose."""
        self._cross(self._blocks.monitor, False)

    def enable_monitoring(self) -> None:
        """Say that the model works again."""
        self._cross(self._blocks.monitor, True)

    def get_track(self, name: str | None = None) -> ContextTrack:
        """A track of the model."""
        wanted, tracks = name or self._default_track, self._tracks | {spec.name: spec for spec in self.inputs}
        if wanted not in tracks:
            raise RuntimeError(f"get_track: this model has no track {wanted!r}; it has: {', '.join(tracks)}")
        return ContextTrack(self, tracks[wanted])

    def profiler(self) -> Profiler:
        """The profiler of the calling thread."""
        return get_profiler()

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the session is over, on a thread of the author; `seconds` at most."""

        async def wait() -> None:
            with trio.move_on_after(max(0.0, seconds)):
                await self._session.ending.wait()  # the hooks of the end wait for a handler that waits here

        self._cross(wait)

    def emit_on(self, spec: TrackSpec, data: object, bucket: int | None) -> None:
        """Emit on one track; data of several tracks that share a bucket is shown together.

        The data is checked and copied now. Its author may reuse it while it waits for that of the other tracks.
        """
        if len(self._tracks) == 1:
            self.emit_block(data)
            return
        with NamesLocation():
            part = part_of_track(spec, data)
        with self._lock:
            number = self._counts[spec.name] if bucket is None else bucket
            self._counts[spec.name] = number + 1
            parts = self._buckets.setdefault(number, {})
            if (older := parts.get(spec.name)) is not None:  # of the same bucket: the newer one takes its place
                self._open_bytes -= older.nbytes
                self._dropped(1)
            parts[spec.name] = part
            self._open_bytes += part.nbytes
            if len(parts) < len(self._tracks):
                self._drop_open_buckets()
                return
            self._take_out(number)
        try:
            with NamesLocation():
                chunk = chunk_of_parts([parts[name] for name in self._tracks])
        except OutputError:
            self._dropped(len(parts) - 1)
            raise
        del part, older, parts  # large values, which this frame would hold while it waits
        self._push(chunk)

    def close(self) -> None:
        """Drop the buckets whose other tracks have no data yet, and count also what comes later: the session is over."""
        with self._lock:
            self._most_open = 0
            self._drop_open_buckets()

    def _drop_open_buckets(self) -> None:
        """Drop the oldest buckets beyond those that may wait; the newest may have any size. The caller has the lock."""
        while (waiting := len(self._buckets)) > self._most_open or (self._open_bytes > OPEN_BYTES and waiting > 1):
            self._dropped(len(self._take_out(next(iter(self._buckets)))))

    def _take_out(self, number: int) -> dict[str, TrackPart]:
        """Remove a bucket that still waits for frames. The caller holds the lock."""
        parts = self._buckets.pop(number)
        self._open_bytes -= sum(part.nbytes for part in parts.values())
        return parts

    def _dropped(self, frames: int) -> None:
        self._session.output_pacer.dropped("model", "incomplete", frames)

    def _checked(self, frames: object) -> Chunk:
        """The chunk that `emit_block` got. Raises OutputError."""
        shape = getattr(frames, "shape", None)
        if shape is not None and len(shape) not in (3, 4):
            raise OutputError(f"emit_block: expected uint8 (H, W, 3) or (N, H, W, 3), got {frames.dtype} {tuple(shape)}")  # type: ignore[attr-defined]
        if len(self._tracks) > 1:
            raise OutputError(f"emit_block: this model has the tracks {', '.join(self._tracks)}; use get_track(name).emit")
        return chunk_from_output(frames, self._outputs)

    def _push(self, chunk: Chunk | None) -> None:
        if threading.current_thread() is self._blocks.session_thread.thread:
            self._cross(self._blocks.push_own, chunk, resumed=self._blocks.block_begins)
        else:
            self._cross(self._blocks.push, chunk)

    def _cross(
        self, function: Callable[..., Any], *args: Any, resumed: Callable[[], object] = lambda: None
    ) -> None:
        handles = threading.current_thread() is self._blocks.handler_thread.thread
        thread = self._blocks.handler_thread if handles else self._blocks.session_thread  # its clock must know that it waits
        with suppress(trio.RunFinishedError):  # a thread that outlived the server
            thread.call_loop(function, *args, resumed=resumed)


class StopEvent:
    """What `get_ctx()._stop_evt` is in Reactor, a `threading.Event`, as far as models use it."""

    def __init__(self, context: BlockingContext) -> None:
        self._context = context

    def is_set(self) -> bool:
        """Whether the session is over."""
        return self._context.should_stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the session is over, `timeout` seconds at most; returns whether it is."""
        if not self.is_set():
            self._context.wait_until_over(math.inf if timeout is None else timeout)
        return self.is_set()


class ContextTrack:
    """A track of the model; see `interface.context.Track`."""

    def __init__(self, context: BlockingContext, spec: TrackSpec) -> None:
        self._context = context
        self._spec = spec

    def emit(self, data: object, bucket: int | None = None) -> None:
        """Queue data on this track, which must lead to the client."""
        if self._spec.direction == "in":
            raise TypeError(f"{self._spec.name} is a track from the client: read its latest()")
        self._context.emit_on(self._spec, data, bucket)

    def latest(self) -> Any | None:
        """The newest frame of this track, which must come from the client; None before the first."""
        if self._spec.direction == "out":
            raise TypeError(f"{self._spec.name} is a track to the client: emit on it")
        return self._context.newest.get(self._spec.name)
