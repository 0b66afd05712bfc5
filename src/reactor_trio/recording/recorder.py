"""From an event loop to files: the loop never waits for a disk.

The loop calls `put` and `note`, which fill a bounded queue. The owner calls `write` and `close` on a worker thread, one at a
time. If the disk is too slow, a video track is dropped and counted until its next keyframe, which the recorder requests. A
disk error ends the recording with one line in the log, and so does a timeline that has its bytes. It does not affect the
session.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from reactor_trio.errors import ReactorError
from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.recording.containers import container_of
from reactor_trio.recording.movie import FileSeries, MovieFile
from reactor_trio.recording.timeline import Timeline, TimelineFull, encode_line

log = logging.getLogger("reactor_trio.recording")

#: what may wait for the disk; the bytes count twice, for packets and for the frames of timeline lines
MAX_BYTES, MAX_PACKETS, MAX_LINES = 64 * 1024 * 1024, 1024, 8192
#: bytes of the other lines that may wait
MAX_LINE_BYTES = 16 * 1024 * 1024

#: what waits: a packet, a line that is made of frames, another line
_Kind = Literal["packet", "frames", "line"]


class _Job(msgspec.Struct, frozen=True):
    """A queued packet or timeline line: how to write it, and the bytes that it keeps in memory until then."""

    kind: _Kind
    write: Callable[[], None]
    size: int


class Recorder:
    """Records one session to `path`, and its timeline to a `.jsonl` file beside it.

    Args:
        path: its suffix chooses the kind of file: `.mp4`, `.mkv` or `.webm`.
        tracks: the session's tracks as they are first described.
        timeline_bytes: bytes that the timeline may have; the recording ends before the line that is too much.

    Raises ReactorError if the suffix is unknown, PyAV is missing, or the files exist or cannot be created.
    """

    def __init__(self, path: Path, tracks: Sequence[TrackInfo], timeline_bytes: float = math.inf) -> None:
        self.path = path
        #: the error that ended the recording, as text; None while it runs
        self.failure: str | None = None
        self._lock = threading.Lock()
        self._queue: deque[_Job] = deque()
        #: jobs in the queue by kind, and their bytes
        self._jobs: Counter[_Kind] = Counter()
        self._bytes: Counter[_Kind] = Counter()
        self._lost_as = "failed"
        self._gated: set[int] = set()
        self._lost: Counter[str] = Counter()
        self._lost_reported: Counter[str] = Counter()
        self._keyframes_wanted: set[int] = set()
        container = container_of(path)
        try:
            if path.exists():  # otherwise the timeline would be created before the movie is refused
                raise FileExistsError
            self._timeline = Timeline(path.with_suffix(".jsonl"), timeline_bytes)
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
                reason = self._lost_as
            elif track.index in self._gated and not packet.keyframe:
                reason = "until_keyframe"
            elif self._jobs["packet"] >= MAX_PACKETS or not self._fits("packet", packet.payload.nbytes, MAX_BYTES):
                reason = "disk_too_slow"
                if track.kind == "video":
                    self._gated.add(track.index)
                    self._keyframes_wanted.add(track.index)
            else:
                self._gated.discard(track.index)
                self._put(_Job("packet", partial(self._series.add, track, packet), packet.payload.nbytes))
                return
            self._lost[reason] += 1

    def note(self, line: dict[str, Any]) -> None:
        """Queue a line of the timeline, as plain data. Never waits."""
        if self.failure is None:
            data = encode_line(line)
            self._note(_Job("line", partial(self._timeline.write, data), len(data)))

    def note_later(self, line: Callable[[], dict[str, Any]], size: int, instead: Callable[[], dict[str, Any]]) -> None:
        """Queue a line that a worker thread makes from `size` bytes, or `instead` if too many bytes wait already. Never
        waits.
        """
        with self._lock:
            fits = self._fits("frames", size, MAX_BYTES)
        make = line if fits else instead
        self._note(_Job("frames", lambda: self._timeline.write(encode_line(make())), size if fits else 0))

    def _note(self, job: _Job) -> None:
        with self._lock:
            if self.failure is not None:
                return
            too_many = self._jobs["line"] + self._jobs["frames"] >= MAX_LINES or (
                job.kind == "line" and not self._fits("line", job.size, MAX_LINE_BYTES)
            )
            if not too_many:
                self._put(job)
        if too_many:
            self._fail("the disk is too slow: too many lines of the timeline wait")

    def _fits(self, kind: _Kind, size: int, most: int) -> bool:
        return not self._bytes[kind] or self._bytes[kind] + size <= most

    def _put(self, job: _Job) -> None:
        self._jobs[job.kind] += 1
        self._bytes[job.kind] += job.size
        self._queue.append(job)

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
        while (job := self._take()) is not None and self.failure is None:
            with self._failing():
                job.write()
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
            self._timeline.end(encode_line(ended))
        with suppress(OSError):
            self._timeline.close()
        self._series.abandon()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _take(self) -> _Job | None:
        with self._lock:
            if not self._queue:
                return None
            job = self._queue.popleft()
            self._jobs[job.kind] -= 1
            self._bytes[job.kind] -= job.size
            return job

    def _opened(self, file: MovieFile) -> None:
        tracks: list[dict[str, Any]] = [
            {"name": track.name, "codec": track.codec}
            | ({"width": track.width, "height": track.height} if track.kind == "video" else {})
            for track in file.tracks.values()
        ]
        begin = file.origin_us / 1e6
        self._timeline.write(encode_line({"type": "file", "t": begin, "file": file.path.name, "tracks": tracks}))

    def _left_out(self, reason: str, number: int) -> None:
        with self._lock:
            self._lost[reason] += number

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """End the recording at any error of the disk, the muxer or an encoder, and when its timeline is full."""
        try:
            yield
        except TimelineFull as full:
            self._fail(str(full), "timeline_full")
            with self._failing():
                self._series.close()  # the disk is as good as before, so the film gets its end
        except Exception as error:  # PyAV raises OSError, ValueError and others, by the kind of failure
            self._fail(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    def _fail(self, why: str, lost_as: str = "failed") -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure, self._lost_as = why, lost_as
            self._lost[lost_as] += self._jobs["packet"]
            self._queue.clear()
            self._jobs.clear()
            self._bytes.clear()
        log.error("the recording %s ended, the session goes on: %s", self.path, why)

