"""Movie files: one file with fixed tracks, and the series of files of a session whose tracks change."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from reactor_trio.descriptors import open_kept_from_children
from reactor_trio.errors import ReactorError
from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.recording.containers import Container
from reactor_trio.recording.track_writers import TrackWriter, open_writer

#: seconds that a new file waits for the first keyframes of all video tracks, and bytes that may wait meanwhile
KEYFRAME_WAIT = 0.5
KEYFRAME_WAIT_BYTES = 32 * 1024 * 1024
#: seconds of sound that are kept while no picture has come
SOUND_KEPT = 1.0


class _Sink:
    """The file that the muxer writes into. A fragment is written whole; if the disk is full, the written part is removed."""

    def __init__(self, path: Path) -> None:
        # "x": a recording never overwrites another.
        self._file = open_kept_from_children(lambda: path.open("xb", buffering=0))
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep `data` until `commit`."""
        self._pieces.append(bytes(data))
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Commit and seek: at the end, Matroska writes where its clusters are."""
        self.commit()
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Commit and return the position."""
        self.commit()
        return self._file.tell()

    def commit(self) -> None:
        """Write what is kept. Raises OSError; the file then has its previous length."""
        if not self._pieces:
            return
        left = memoryview(b"".join(self._pieces))
        self._pieces.clear()
        begin = self._file.tell()
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(begin)
            raise

    def close(self) -> None:
        """Close the file; data that was not committed is lost."""
        self._file.close()


class MovieFile:
    """One file, whose tracks are fixed when it is opened.

    Args:
        tracks: each with its first keyframe, or None for sound.
        origin_us: the time of the session at which the file begins, in microseconds.

    The constructor and each method raise OSError and av.error.FFmpegError.
    """

    def __init__(
        self, path: Path, container: Container, tracks: Sequence[tuple[TrackInfo, Packet | None]], origin_us: int
    ) -> None:
        import av

        self.path = path
        self.origin_us = origin_us
        self.tracks = {track.index: track for track, _ in tracks}
        self._sink = _Sink(path)
        try:
            self._output = av.open(self._sink, "w", format=container.format, options=dict(container.options))
            self._writers: dict[int, TrackWriter] = {
                track.index: open_writer(self._output, container, track, keyframe) for track, keyframe in tracks
            }
            self._output.start_encoding()
            self._sink.commit()
        except BaseException:
            self._sink.close()
            raise

    def carries(self, track: TrackInfo) -> bool:
        """Whether this file can take packets of `track` as it is now described."""
        known = self.tracks.get(track.index)
        return known is not None and _format(known) == _format(track)

    def write(self, packet: Packet) -> None:
        """Add a packet of a track that this file carries."""
        for made in self._writers[packet.track].write(packet, packet.pts_us - self.origin_us):
            self._output.mux(made)
        self._sink.commit()

    def close(self) -> None:
        """Write what was held back, and the end of the file."""
        try:
            for writer in self._writers.values():
                for made in writer.finish():
                    self._output.mux(made)
            self._output.close()
            self._sink.commit()
        finally:
            self._sink.close()

    def abandon(self) -> None:
        """Close after an error. The file keeps what it has; nothing is added."""
        self._sink.close()
        with suppress(OSError, ValueError):  # the muxer tries to end the file, which is closed
            self._output.close()


class FileSeries:
    """Writes packets into NAME.mp4, and into NAME-2.mp4 and so on after a track's codec or size has changed.

    A file begins at the earliest of its first keyframes and needs one for each video track. The packets of a track before
    its keyframe are dropped and counted, and a keyframe is requested.

    Args:
        expected: the session's tracks as they are first described; a file waits a moment for all video tracks among them.
        opened: called with each new file.
        left_out: counts dropped packets: reason, number.
    """

    def __init__(
        self,
        path: Path,
        container: Container,
        expected: Sequence[TrackInfo],
        opened: Callable[[MovieFile], None],
        left_out: Callable[[str, int], None],
    ) -> None:
        self.written: Counter[str] = Counter()
        #: video tracks, by index, that need a keyframe to continue
        self.keyframes_wanted: set[int] = set()
        self._path = path
        self._container = container
        self._latest = {track.index: track for track in expected if track.direction == "out"}
        self._opened = opened
        self._left_out = left_out
        self._file: MovieFile | None = None
        self._number = 0
        self._waiting: deque[tuple[TrackInfo, Packet]] = deque()
        self._keyframes: dict[int, tuple[TrackInfo, Packet]] = {}

    def add(self, track: TrackInfo, packet: Packet) -> None:
        """Add a packet. Raises ReactorError if the file cannot carry its codec, OSError, and av.error.FFmpegError."""
        if track.codec not in self._container.codecs:
            raise ReactorError(
                f"{self._container.name} cannot carry {track.codec} of track {track.name}; record to a .mkv file"
            )
        self._latest[track.index] = track
        if self._file is not None:
            if self._file.carries(track):
                self._write(self._file, packet)
                return
            if not packet.keyframe:
                self._wait_for_keyframe(packet)
                return
            self._close_file()
        self._hold(track, packet)

    def close(self) -> None:
        """Write the waiting packets and end the last file. Raises as `add` does."""
        if self._file is None and (self._keyframes or (self._waiting and not self._video())):
            self._open_file()
        for _ in self._waiting:
            self._left_out("no_picture", 1)
        self._waiting.clear()
        self._close_file()

    def abandon(self) -> None:
        """Close the file if an error has left it open, and let go of the recorder. Nothing may be added any more."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        del self._opened, self._left_out

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _hold(self, track: TrackInfo, packet: Packet) -> None:
        if track.kind == "video":
            known = self._keyframes.get(track.index)
            if known is None or _format(known[0]) != _format(track):
                if not packet.keyframe:
                    self._wait_for_keyframe(packet)
                    return
                self._forget(track.index)
                self._keyframes[track.index] = track, packet
        self._waiting.append((track, packet))
        if self._ready(packet):
            self._open_file()
        elif not self._keyframes:
            while packet.pts_us - self._waiting[0][1].pts_us > SOUND_KEPT * 1e6:
                self._waiting.popleft()
                self._left_out("before_picture", 1)

    def _video(self) -> set[int]:
        return {track.index for track in self._latest.values() if track.kind == "video"}

    def _ready(self, packet: Packet) -> bool:
        if not self._keyframes:
            return not self._video()
        begin = min(keyframe.pts_us for _, keyframe in self._keyframes.values())
        return (
            self._video() <= self._keyframes.keys()
            or packet.pts_us - begin >= KEYFRAME_WAIT * 1e6
            or sum(waiting.payload.nbytes for _, waiting in self._waiting) > KEYFRAME_WAIT_BYTES
        )

    def _open_file(self) -> None:
        first = [keyframe.pts_us for _, keyframe in self._keyframes.values()] or [self._waiting[0][1].pts_us]
        sound = [
            (track, None) for track in self._latest.values()
            if track.kind == "audio" and track.codec in self._container.codecs
        ]  # fmt: skip
        tracks = sorted([*self._keyframes.values(), *sound], key=lambda entry: entry[0].index)
        self._file = MovieFile(self._next_path(), self._container, tracks, min(first))
        self._opened(self._file)
        self._keyframes.clear()
        waiting, self._waiting = self._waiting, deque()
        for track, packet in waiting:
            if track.kind == "audio" and packet.pts_us < self._file.origin_us and track.codec == "opus":
                self._left_out("before_picture", 1)
            else:
                self._write(self._file, packet)

    def _write(self, file: MovieFile, packet: Packet) -> None:
        file.write(packet)
        self.written[file.tracks[packet.track].name] += 1

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _wait_for_keyframe(self, packet: Packet) -> None:
        self._left_out("before_keyframe", 1)
        self.keyframes_wanted.add(packet.track)

    def _forget(self, index: int) -> None:
        """Drop the waiting packets of a track that has changed again before the file began."""
        kept = deque(entry for entry in self._waiting if entry[0].index != index)
        if less := len(self._waiting) - len(kept):
            self._left_out("changed", less)
        self._waiting = kept

    def _next_path(self) -> Path:
        self._number += 1
        if self._number == 1:
            return self._path
        return self._path.with_stem(f"{self._path.stem}-{self._number}")


def _format(track: TrackInfo) -> tuple[object, ...]:
    """The properties of a track that cannot change within a file."""
    return (track.codec, track.width, track.height, track.coded_width, track.coded_height, track.sample_rate)
