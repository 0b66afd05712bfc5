"""Files of packets: one that holds what its tracks are, and the series that a session with changing tracks becomes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from reactor_trio.errors import ReactorError
from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.recording.containers import Container
from reactor_trio.recording.track_writers import TrackWriter, open_writer

#: seconds in which the other video tracks of a new file may bring their keyframe, and bytes that may wait meanwhile
GATHERING = 0.5
GATHERING_BYTES = 32 * 1024 * 1024
#: seconds of sound kept from before the first picture
SOUND_KEPT = 1.0


class _Sink:
    """What a muxer writes into: a fragment goes to the system in one piece, and one that finds no room is taken back."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)  # "x": a recording never overwrites another
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep `data` until `commit`."""
        self._pieces.append(bytes(data))
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """For Matroska, which notes at the end where its clusters lie."""
        self.commit()
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As of a file."""
        self.commit()
        return self._file.tell()

    def commit(self) -> None:
        """Write what is kept. Raises OSError, and then the file is as long as before."""
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
        """Let go of the file; what was not committed is lost."""
        self._file.close()


class MovieFile:
    """One file; its tracks are those that it was begun with.

    Args:
        tracks: each with its first keyframe, None for sound.
        origin_us: the session's time at which the file begins.

    Raises OSError and av.error.FFmpegError, here and from each method.
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
        """Whether packets of `track`, as it is now described, go into this file."""
        known = self.tracks.get(track.index)
        return known is not None and _kind(known) == _kind(track)

    def write(self, packet: Packet) -> None:
        """Add a packet of a track that this file carries."""
        for made in self._writers[packet.track].write(packet, packet.pts_us - self.origin_us):
            self._output.mux(made)
        self._sink.commit()

    def close(self) -> None:
        """Write what was held back, and the file's end."""
        try:
            for writer in self._writers.values():
                for made in writer.finish():
                    self._output.mux(made)
            self._output.close()
            self._sink.commit()
        finally:
            self._sink.close()

    def abandon(self) -> None:
        """Close after an error: what is in the file stays, nothing is added."""
        self._sink.close()
        with suppress(OSError, ValueError):  # the muxer would end the file, which is closed
            self._output.close()


class FileSeries:
    """Packets into NAME.mp4, and into NAME-2.mp4 and so on when a track's codec or size changes.

    A file begins with a keyframe of each video track, at the first of them. A track's packets before its keyframe are left
    out and counted, and a keyframe is asked for.

    Args:
        expected: the session's tracks as they are first described; a file waits a moment for all the video among them.
        opened: told of each file begun.
        left_out: counts packets: reason, number.
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
        #: video tracks that cannot go on without a keyframe
        self.keyframes_wanted: set[int] = set()
        self._path = path
        self._container = container
        self._latest = {track.index: track for track in expected if track.direction == "out"}
        self._opened = opened
        self._left_out = left_out
        self._file: MovieFile | None = None
        self._number = 0
        self._gathered: deque[tuple[TrackInfo, Packet]] = deque()
        self._keyframes: dict[int, tuple[TrackInfo, Packet]] = {}

    def add(self, track: TrackInfo, packet: Packet) -> None:
        """The next packet. Raises ReactorError if the file cannot carry its codec, OSError, av.error.FFmpegError."""
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
        self._gather(track, packet)

    def close(self) -> None:
        """Write what waits and end the last file. Raises as `add` does."""
        if self._file is None and (self._keyframes or (self._gathered and not self._video())):
            self._open_file()
        for _ in self._gathered:
            self._left_out("no_picture", 1)
        self._gathered.clear()
        self._close_file()

    def abandon(self) -> None:
        """After an error: let go of the file."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _gather(self, track: TrackInfo, packet: Packet) -> None:
        if track.kind == "video":
            known = self._keyframes.get(track.index)
            if known is None or _kind(known[0]) != _kind(track):
                if not packet.keyframe:
                    self._wait_for_keyframe(packet)
                    return
                self._forget(track.index)
                self._keyframes[track.index] = track, packet
        self._gathered.append((track, packet))
        if self._ready(packet):
            self._open_file()
        elif not self._keyframes:
            while packet.pts_us - self._gathered[0][1].pts_us > SOUND_KEPT * 1e6:
                self._gathered.popleft()
                self._left_out("before_picture", 1)

    def _video(self) -> set[int]:
        return {track.index for track in self._latest.values() if track.kind == "video"}

    def _ready(self, packet: Packet) -> bool:
        if not self._keyframes:
            return not self._video()
        begin = min(keyframe.pts_us for _, keyframe in self._keyframes.values())
        return (
            self._video() <= self._keyframes.keys()
            or packet.pts_us - begin >= GATHERING * 1e6
            or sum(waiting.payload.nbytes for _, waiting in self._gathered) > GATHERING_BYTES
        )

    def _open_file(self) -> None:
        first = [keyframe.pts_us for _, keyframe in self._keyframes.values()] or [self._gathered[0][1].pts_us]
        sound = [
            (track, None) for track in self._latest.values()
            if track.kind == "audio" and track.codec in self._container.codecs
        ]  # fmt: skip
        tracks = sorted([*self._keyframes.values(), *sound], key=lambda entry: entry[0].index)
        self._file = MovieFile(self._next_path(), self._container, tracks, min(first))
        self._opened(self._file)
        self._keyframes.clear()
        gathered, self._gathered = self._gathered, deque()
        for track, packet in gathered:
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
        """What was gathered of a track that has changed again before the file began."""
        kept = deque(entry for entry in self._gathered if entry[0].index != index)
        if less := len(self._gathered) - len(kept):
            self._left_out("changed", less)
        self._gathered = kept

    def _next_path(self) -> Path:
        self._number += 1
        if self._number == 1:
            return self._path
        return self._path.with_stem(f"{self._path.stem}-{self._number}")


def _kind(track: TrackInfo) -> tuple[object, ...]:
    """What a file cannot change in its middle."""
    return (track.codec, track.width, track.height, track.coded_width, track.coded_height, track.sample_rate)
