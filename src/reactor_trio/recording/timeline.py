"""The timeline of a session, one JSON object a line, in order (`docs/reference/runtime/recording.md` lists the lines).

Each line has a `type` and, except the first, `t`: seconds since the session began. A file without an `end` line comes from a
process that was killed; each of its complete lines is valid.

A line has digests of data that a recording does not keep, by which a later run can be compared with it: BLAKE2b with 16
bytes. Different frames have different digests, and a megabyte takes about a millisecond.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from reactor_trio.descriptors import open_kept_from_children
from reactor_trio.protocol import TrackInfo, Welcome

#: returns a frame as an array
Frame = Callable[[], npt.NDArray[np.generic]]

#: Bytes of JSON up to which the arguments of a refused command are written whole.
LONGEST_REFUSED = 1024
_DIGEST_SIZE = 16


def _plain(value: Any) -> Any:
    """Encode what msgspec cannot: a numpy value as plain data, anything else by its `repr`."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


class TimelineFull(Exception):
    """The timeline has as many bytes as it may have."""


def encode_line(line: Mapping[str, Any]) -> bytes:
    """Encode a line of the file."""
    return _encoder.encode(line) + b"\n"


class Timeline:
    """Writes the lines. The constructor and each method raise OSError; FileExistsError if the file exists.

    Args:
        most: bytes that the file may have, besides its last line.
    """

    def __init__(self, path: Path, most: float) -> None:
        self._file = open_kept_from_children(lambda: path.open("xb", buffering=0))
        self._most = most
        self._size = 0

    def write(self, line: bytes) -> None:
        """Add an encoded line. When this returns, the operating system has it. Raises TimelineFull."""
        if self._size + len(line) > self._most:
            raise TimelineFull(f"its timeline has the {self._most} bytes that it may have (runtime.limits.timeline_bytes)")
        self._size += len(line)
        self._file.write(line)

    def end(self, line: bytes) -> None:
        """Add the last line, also to a timeline that is full."""
        self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def session_line(
    welcome: Welcome, run: Mapping[str, Any] | None = None, begun_from: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The first line: the session, its schema and its tracks, without the tokens of the welcome. `run`: what a replay needs
    besides; `begun_from`: the saved world at which the session has begun.
    """
    return {
        "type": "session", "session_id": welcome.session_id, "name": welcome.name, "protocol": welcome.protocol,
        "began": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "schema": welcome.schema, "tracks": welcome.tracks,
    } | ({} if run is None else {"run": run}) | ({} if begun_from is None else {"begun_from": begun_from})  # fmt: skip


def track_line(t: float, track: TrackInfo) -> dict[str, Any]:
    """A track has another size or codec from its next frame on."""
    return {"type": "track", "t": t, "track": track}


def message_line(t: float, name: str, data: Any) -> dict[str, Any]:
    """The model sent a message."""
    return {"type": "message", "t": t, "name": name, "data": data}


def cut_arguments(data: bytes) -> dict[str, Any]:
    """What a line has of arguments that are too long for it: their beginning as text."""
    return {"arguments": None, "arguments_cut": data[:LONGEST_REFUSED].decode(errors="replace"), "size": len(data)}


def command_line(
    t: float, id: int | None, name: str, arguments: Any, step: int | None, refused: tuple[str, str] | None = None  # noqa: A002
) -> dict[str, Any]:
    """A command was applied, and step number `step` is the first that sees it; or it was refused with a code and a text."""
    line = {"type": "command", "t": t, "id": id, "name": name, "arguments": arguments}
    return line | ({"step": step} if refused is None else {"code": refused[0], "message": refused[1]})


def saved_line(t: float, digest: str | None, code: str | None) -> dict[str, Any]:
    """The world of the newest save or fork is in a file; or it could not be written, and why is `code`."""
    return {"type": "saved", "t": t, "digest": digest} | ({} if code is None else {"code": code})


def upload_line(
    t: float, id: str, name: str, size: int, mime_type: str | None = None, digest: str | None = None  # noqa: A002
) -> dict[str, Any]:
    """A file of `size` bytes was uploaded; the recording does not keep it. `digest` is its BLAKE2b of 16 bytes."""
    line = {"type": "upload", "t": t, "id": id, "name": name, "size": size}
    return line | ({} if digest is None else {"mime_type": mime_type, "digest": digest})


def frames_line(t: float, step: int, tracks: Mapping[str, tuple[int, Frame]], *, digests: bool = True) -> dict[str, Any]:
    """The frames of one instant as the model made them: number, shape and `frame_digest`. Call it on a worker thread.

    Each frame comes as a function that returns it, since it may lie on a device. Without `digests` no function is called.
    """
    frames = {}
    for name, (seq, frame) in tracks.items():
        data = frame() if digests else None
        shape, digest = (None, None) if data is None else (data.shape, frame_digest(data))
        frames[name] = {"seq": seq, "shape": shape, "digest": digest}
    return {"type": "frames", "t": t, "step": step, "tracks": frames}


def frame_digest(frame: npt.NDArray[Any]) -> str:
    """The digest of a frame's values in row order, without its shape. Releases the GIL meanwhile."""
    return hashlib.blake2b(np.ascontiguousarray(frame).reshape(-1).data, digest_size=_DIGEST_SIZE).hexdigest()


def config_digest(config: Mapping[str, Any], salt: str) -> str | None:
    """The digest of a model's config, which may hold secrets; None if JSON cannot express the config.

    The salt is the session's id, so that two recordings do not reveal whether their configs are equal.
    """
    try:
        plain = msgspec.json.encode(dict(config), order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.blake2b(plain, digest_size=_DIGEST_SIZE, key=salt.encode()[:64]).hexdigest()
