"""Writes the bundles of a rendering to files: a film with all tracks, or a folder of pictures and sounds. It drops no frame.

A worker thread encodes a bundle while the model computes the next ones. A slow encoder or disk makes the model wait. The
files are complete whatever ends the rendering: an exception, a cancellation, Ctrl-C.
"""

from __future__ import annotations

import struct
import wave
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.configuration.manifest import Manifest
from reactor_trio.errors import ReactorError
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.offline.open_rendering import render, run_blocking
from reactor_trio.offline.rendering import RenderedBundle, Rendering
from reactor_trio.protocol import Packet, TrackInfo
from reactor_trio.protocol.packet import KEYFRAME
from reactor_trio.recording import FileSeries, container_of


class Summary(msgspec.Struct, frozen=True):
    """The result of `write`.

    Attributes:
        files: in the order in which they were opened.
        bundles: number of bundles.
        frames: number of frames of each track.
        seconds: length of the film.
        wall: seconds that writing took.
        left_out: number of frames that the file could not hold, by reason (sound without a picture).
    """

    files: tuple[Path, ...]
    bundles: int
    frames: Mapping[str, int]
    seconds: float
    wall: float
    left_out: Mapping[str, int]

    def __str__(self) -> str:
        files = f"{', '.join(map(str, self.files))}: " if self.files else ""
        rate = self.bundles / self.wall if self.wall else 0.0
        lost = sum(self.left_out.values())
        return (
            f"{files}{self.bundles} frames, {self.seconds:.2f} s, made in {self.wall:.2f} s ({rate:.1f} frames/s)"
            + (f"; {lost} left out" if lost else "")
        )


class FilmWriter:
    """Writes a film: `.mp4`, `.mkv` or `.webm`. When the picture changes its size, another file begins, `NAME-2.mp4`.

    Raises ReactorError if the name has another suffix, if the file exists, or if PyAV is missing.
    """

    def __init__(self, path: Path, declaration: Declaration) -> None:
        self.files: list[Path] = []
        self.left_out: Counter[str] = Counter()
        container = container_of(path)
        _refuse_if_taken(path)
        self._tracks = {
            track.name: TrackInfo(
                index, track.name, track.kind, "out", "raw" if track.kind == "video" else "pcm_s16le",
                sample_rate=(track.sample_rate or 48_000) if track.kind == "audio" else None,
            )
            for index, track in enumerate(track for track in declaration.tracks if track.direction == "out")
        }  # fmt: skip
        self._series = FileSeries(
            path, container, list(self._tracks.values()), lambda file: self.files.append(file.path), self._left_out
        )

    def write(self, bundle: RenderedBundle) -> None:
        """Encode and append a bundle. Raises OSError or ValueError."""
        for name, data in bundle.tracks.items():
            track = self._tracks[name]
            if track.kind == "video":
                track = msgspec.structs.replace(track, height=data.shape[0], width=data.shape[1])
            payload = np.ascontiguousarray(data).reshape(-1).data.cast("B")
            packet = Packet(track.index, bundle.seqs[name], round(bundle.t * 1e6), KEYFRAME, None, bundle.step, {}, payload)
            self._series.add(track, packet)

    def close(self) -> None:
        """End the film."""
        try:
            self._series.close()
        except BaseException:
            self._series.abandon()
            raise

    def _left_out(self, reason: str, number: int) -> None:
        self.left_out[reason] += number


class PictureFolder:
    """Writes a new folder: each picture as `TRACK-000000.png` with its number, lossless, and each sound as `TRACK.wav`.

    Raises ReactorError if the folder exists or cannot be made.
    """

    def __init__(self, path: Path, declaration: Declaration) -> None:
        self.files = [path]
        self.left_out: Counter[str] = Counter()
        _refuse_if_taken(path)
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise ReactorError(f"cannot make the folder {path}: {error.strerror or error}") from error
        self._path = path
        self._rates = {track.name: track.sample_rate or 48_000 for track in declaration.tracks if track.kind == "audio"}
        self._sounds: dict[str, wave.Wave_write] = {}

    def write(self, bundle: RenderedBundle) -> None:
        """Write the pictures and the sound of a bundle. Raises OSError."""
        for name, data in bundle.tracks.items():
            if name in self._rates:
                self._sound(name).writeframes(data.astype("<i2").tobytes())
            else:
                (self._path / f"{name}-{bundle.seqs[name]:06}.png").write_bytes(png(data))

    def close(self) -> None:
        """End the sound files."""
        for sound in self._sounds.values():
            sound.close()

    def _sound(self, name: str) -> wave.Wave_write:
        if name not in self._sounds:
            sound = self._sounds[name] = wave.Wave_write(str(self._path / f"{name}.wav"))
            sound.setparams((1, 2, self._rates[name], 0, "NONE", "not compressed"))  # one channel of 16 bits
        return self._sounds[name]


def png(picture: npt.NDArray[Any]) -> bytes:
    """Encode an RGB picture `(H, W, 3)` uint8 as a PNG file. Each row has the filter "up" (W3C PNG, sections 5 and 9)."""
    height, width, _ = picture.shape
    pixels = picture.reshape(height, 3 * width)
    rows = np.full((height, 1 + 3 * width), 2, np.uint8)  # each row begins with the number of its filter
    rows[0, 1:] = pixels[0]
    np.subtract(pixels[1:], pixels[:-1], out=rows[1:, 1:])  # modulo 256
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.data)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
        for kind, data in chunks
    )


async def write(
    rendering: Rendering, path: str | Path | None, *, on_bundle: Callable[[RenderedBundle], object] | None = None
) -> Summary:
    """Take all bundles of a rendering and write them to the new file or folder `path`; with None, write nothing.

    `on_bundle` is called with each bundle on a worker thread, before the bundle is written. Raises what the rendering
    raises, and ReactorError if the file cannot be written. The file is complete even then.
    """
    began, frames, bundles, seconds = trio.current_time(), Counter[str](), 0, 0.0

    def take(batch: list[RenderedBundle]) -> None:
        nonlocal bundles, seconds
        for bundle in batch:
            if on_bundle is not None:
                on_bundle(bundle)
            if sink is not None:
                sink.write(bundle)
            frames.update(bundle.tracks.keys())
            bundles, seconds = bundles + 1, bundle.t + bundle.duration

    sink: FilmWriter | PictureFolder | None = None
    if path is not None:
        sink_type: type[FilmWriter | PictureFolder] = FilmWriter if Path(path).suffix else PictureFolder
        sink = await trio.to_thread.run_sync(sink_type, Path(path), rendering.declaration)
    try:
        while batch := await rendering.batch():  # one call of the other thread for all bundles that are made
            await _blocking(path, take, batch)
    finally:
        if sink is not None:
            with trio.CancelScope(shield=True):
                await _blocking(path, sink.close)
    files, left_out = ((), {}) if sink is None else (tuple(sink.files), dict(+sink.left_out))
    return Summary(files, bundles, dict(frames), seconds, trio.current_time() - began, left_out)


def render_to(path: str | Path, model: type[Model] | Manifest, **options: Any) -> Summary:
    """Render to a file, for scripts and notebooks without a loop of their own. `options` are those of `render`.

    Raises what `render` and `write` raise.
    """

    async def film() -> Summary:
        async with render(model, **options) as rendering:
            return await write(rendering, path)

    return run_blocking(film)


async def _blocking(path: str | Path | None, function: Callable[..., None], *arguments: Any) -> None:
    try:
        await trio.to_thread.run_sync(function, *arguments)
    except ReactorError:
        raise
    except (OSError, ValueError) as error:  # PyAV's errors are subclasses of these
        raise ReactorError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def _refuse_if_taken(path: Path) -> None:
    if path.exists():
        raise ReactorError(f"cannot write {path}: it exists already; choose another name")
