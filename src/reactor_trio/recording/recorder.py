"""From an event loop to files: the loop never waits for a disk.

The loop calls `put` and `note`, which fill a bounded queue. The owner calls `write` and `close` on a worker thread, one at a
time. If the disk is too slow, a video track is dropped and counted until its next keyframe, which the recorder requests. A
disk error ends the recording with one line in the log. It does not affect the session.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reactor_trio.errors import ReactorError
from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.recording.containers import container_of
from reactor_trio.recording.movie import FileSeries, MovieFile
from reactor_trio.recording.timeline import Timeline

log = logging.getLogger("reactor_trio.recording")


class _Later:
    """A timeline line that is made when it is written, and the bytes that it keeps in memory until then."""

    def __init__(self, make: Callable[[], dict[str, Any]], size: int) -> None:
        self.make = make
        self.size = size


_Item = tuple[TrackInfo, Packet] | dict[str, Any] | _Later


class Recorder:
    """Records one session to `path`, and its timeline to a `.jsonl` file beside it.

    Args:
        path: its suffix chooses the kind of file: `.mp4`, `.mkv` or `.webm`.
        tracks: the session's tracks as they are first described.
        bytes_queued, packets_queued, notes_queued: the limits of the queue.

    Raises ReactorError if the suffix is unknown, PyAV is missing, or the files exist or cannot be created.
    """

    def __init__(
        self,
        path: Path,
        tracks: Sequence[TrackInfo],
        *,
        bytes_queued: int = 64 * 1024 * 1024,
        packets_queued: int = 1024,
        notes_queued: int = 8192,
    ) -> None:
        self.path = path
        #: the error that ended the recording, as text; None while it runs
        self.failure: str | None = None
        self._limits = bytes_queued, packets_queued, notes_queued
        self._lock = threading.Lock()
        self._queue: deque[_Item] = deque()
        self._bytes = self._packets = self._notes = self._held = 0
        self._gated: set[int] = set()
        self._lost: Counter[str] = Counter()
        self._lost_reported: Counter[str] = Counter()
        self._keyframes_wanted: set[int] = set()
        container = container_of(path)
        try:
            if path.exists():  # otherwise the timeline would be created before the movie is refused
                raise FileExistsError
            self._timeline = Timeline(path.with_suffix(".jsonl"))
        except FileExistsError:
            raise ReactorError(f"cannot record {path}: there is a recording of this name; choose another") from None
        except OSError as error:
            raise ReactorError(f"cannot record {path}: {error.strerror or error}") from error
        self._series = FileSeries(path, container, tracks, self._opened, self._left_out)

    # ---- on the loop --------------------------------------------------------------------------------------------------

    def put(self, track: TrackInfo, packet: Packet) -> None:
        """Queue a packet with the present description of its track. Its payload must not change any more. Never waits."""
        with self._lock:
            if self.failure is not None:
                reason = "failed"
            elif track.index in self._gated and not packet.keyframe:
                reason = "until_keyframe"
            elif (
                self._bytes + packet.payload.nbytes > self._limits[0] and self._packets
            ) or self._packets >= self._limits[1]:
                reason = "disk_too_slow"
                if track.kind == "video":
                    self._gated.add(track.index)
                    self._keyframes_wanted.add(track.index)
            else:
                self._gated.discard(track.index)
                self._packets += 1
                self._bytes += packet.payload.nbytes
                self._queue.append((track, packet))
                return
            self._lost[reason] += 1

    def note(self, line: dict[str, Any]) -> None:
        """Queue a line of the timeline, as plain data. Never waits."""
        self._note(line)

    def note_later(self, line: Callable[[], dict[str, Any]], size: int, instead: Callable[[], dict[str, Any]]) -> None:
        """Queue a line that a worker thread makes from `size` bytes, or `instead` if too many bytes wait already. Never
        waits.
        """
        with self._lock:
            if fits := not self._held or self._held + size <= self._limits[0]:
                self._held += size
        self._note(_Later(line, size) if fits else _Later(instead, 0))

    def _note(self, line: dict[str, Any] | _Later) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self._notes += 1
            self._queue.append(line)
            too_many = self._notes > self._limits[2]
        if too_many:
            self._fail("the disk is too slow: too many lines of the timeline wait")

    @property
    def waiting(self) -> bool:
        """Whether there is something to write."""
        return bool(self._queue)

    def keyframes_wanted(self) -> set[int]:
        """The video tracks, by index, that need a keyframe since the last call. Each loss names its track once."""
        with self._lock:
            wanted, self._keyframes_wanted = self._keyframes_wanted, set()
        return wanted

    def left_out(self) -> dict[str, int]:
        """How many packets were dropped since the last call, by reason."""
        with self._lock:
            new, self._lost_reported = self._lost - self._lost_reported, self._lost.copy()
        return dict(new)

    def summary(self) -> str:
        """What the files contain, as text for people."""
        frames = ", ".join(f"{name} {count} packets" for name, count in self._series.written.items()) or "nothing"
        lost = sum(self._lost.values())
        return frames + (f", {lost} left out" if lost else "") + (f"; ended early: {self.failure}" if self.failure else "")

    # ---- on a worker thread -------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write what waits. Errors of disk and muxer end the recording; they are never raised."""
        while (item := self._take()) is not None and self.failure is None:
            with self._failing():
                if isinstance(item, dict):
                    self._timeline.write(item)
                elif isinstance(item, _Later):
                    self._timeline.write(item.make())
                else:
                    self._series.add(*item)
        with self._lock:
            self._keyframes_wanted |= self._series.keyframes_wanted
        self._series.keyframes_wanted.clear()

    def close(self, t: float, reason: str) -> None:
        """Write what waits and end the files, at `t` seconds since the session began. Handles errors as `write` does."""
        self.write()
        if self.failure is None:
            with self._failing():
                self._series.close()
        ended = {
            "type": "end", "t": t, "reason": reason,
            "frames": dict(self._series.written), "left_out": dict(+self._lost),
        } | ({"failure": self.failure} if self.failure else {})  # fmt: skip
        with suppress(OSError):
            self._timeline.write(ended)
        with suppress(OSError):
            self._timeline.close()
        self._series.abandon()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _take(self) -> _Item | None:
        with self._lock:
            if not self._queue:
                return None
            item = self._queue.popleft()
            if isinstance(item, dict | _Later):
                self._notes -= 1
                self._held -= item.size if isinstance(item, _Later) else 0
            else:
                self._packets -= 1
                self._bytes -= item[1].payload.nbytes
            return item

    def _opened(self, file: MovieFile) -> None:
        tracks: list[dict[str, Any]] = [
            {"name": track.name, "codec": track.codec}
            | ({"width": track.width, "height": track.height} if track.kind == "video" else {})
            for track in file.tracks.values()
        ]
        begin = file.origin_us / 1e6
        self._timeline.write({"type": "file", "t": begin, "file": file.path.name, "tracks": tracks})

    def _left_out(self, reason: str, number: int) -> None:
        with self._lock:
            self._lost[reason] += number

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """End the recording at any error of the disk, the muxer or an encoder."""
        try:
            yield
        except Exception as error:  # PyAV raises OSError, ValueError and others, by the kind of failure
            self._fail(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    def _fail(self, why: str) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure = why
            self._lost["failed"] += self._packets
            self._queue.clear()
            self._bytes = self._packets = self._notes = self._held = 0
        log.error("the recording %s ended, the session goes on: %s", self.path, why)

