"""The kinds of files, by suffix: which codecs each carries, and how it is written so that it stays readable if the process
is killed.

A fragment holds at most half a second and goes to the operating system as soon as the next one begins. The muxer waits at
most a quarter of a second for a silent track. So less than the newest second is not yet in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from reactor_trio.errors import ReactorError

#: the video codecs that a recorder asks for, best first
CODECS = ("h264", "vp9", "av1", "vp8", "jpeg", "raw")

_COMMON = {"max_interleave_delta": "250000", "flush_packets": "1"}
_MP4 = {"movflags": "empty_moov+default_base_moof", "frag_duration": "500000", **_COMMON}
_MATROSKA = {"cluster_time_limit": "500", **_COMMON}


class Container(msgspec.Struct, frozen=True):
    """A kind of file.

    Attributes:
        format: FFmpeg's name of the format.
        codecs: the codecs that it can carry, by their names on the wire; raw pictures are encoded.
        pictures: FFmpeg's encoder for raw pictures.
        sound: FFmpeg's encoder for sound that comes as samples.
    """

    name: str
    format: str
    codecs: frozenset[str]
    pictures: Literal["libx264", "libvpx-vp9"]
    sound: Literal["aac", "libopus"]
    options: Mapping[str, str]

    @property
    def video(self) -> tuple[str, ...]:
        """The video codecs to ask a server for, best first."""
        return tuple(codec for codec in CODECS if codec in self.codecs)


_SOUND = {"opus", "pcm_s16le"}
_IN_MP4 = frozenset({"h264", "lossless", "vp9", "av1", "jpeg", "raw", *_SOUND})
_IN_WEBM = frozenset({"vp9", "av1", "vp8", "raw", *_SOUND})
_CONTAINERS = {
    ".mp4": Container("MP4", "mp4", _IN_MP4, "libx264", "aac", _MP4),
    ".mkv": Container("Matroska", "matroska", _IN_MP4 | {"vp8"}, "libx264", "aac", _MATROSKA),
    ".webm": Container("WebM", "webm", _IN_WEBM, "libvpx-vp9", "libopus", _MATROSKA),
}


def container_of(path: Path) -> Container:
    """The kind of file for the suffix of `path`. Raises ReactorError if the suffix is unknown or PyAV is missing."""
    container = _CONTAINERS.get(path.suffix.lower())
    if container is None:
        raise ReactorError(f"cannot record {path}: name a file that ends in {', '.join(_CONTAINERS)}")
    if find_spec("av") is None:
        raise ReactorError(f'cannot record {path}: recording needs PyAV, pip install "reactor-trio[video]"')
    return container
