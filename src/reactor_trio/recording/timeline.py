"""What happened in a session, one JSON object a line, in order (`docs/guide/recording.md` lists the lines).

Each line has a `type` and, but for the first, `t`: seconds since the session began. A file that lacks its `end` belongs to a
process that was killed; every whole line of it is good.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from reactor_trio.protocol import TrackInfo, Welcome


def _plain(value: Any) -> Any:
    """Arguments may be numpy's; of anything else that JSON has not, its name is better than no line."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


class Timeline:
    """Writes the lines. Raises OSError, here and from each method; FileExistsError if there is such a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line; it is the system's when this returns."""
        self._file.write(_encoder.encode(line) + b"\n")

    def close(self) -> None:
        """Nothing more."""
        self._file.close()


def session_line(welcome: Welcome) -> dict[str, Any]:
    """The first line: who and what. Of the welcome's tokens none is in it."""
    return {
        "type": "session", "session_id": welcome.session_id, "name": welcome.name, "protocol": welcome.protocol,
        "began": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "schema": welcome.schema, "tracks": welcome.tracks,
    }  # fmt: skip


def track_line(t: float, track: TrackInfo) -> dict[str, Any]:
    """A track has another size or codec from its next frame on."""
    return {"type": "track", "t": t, "track": track}


def message_line(t: float, name: str, data: Any) -> dict[str, Any]:
    """The model said something."""
    return {"type": "message", "t": t, "name": name, "data": data}


def command_line(
    t: float, id: int | None, name: str, arguments: Any, step: int | None, refused: tuple[str, str] | None = None  # noqa: A002
) -> dict[str, Any]:
    """A command was applied, and the step with number `step` is the first that sees it, or was refused: code, words."""
    line = {"type": "command", "t": t, "id": id, "name": name, "arguments": arguments}
    return line | ({"step": step} if refused is None else {"code": refused[0], "message": refused[1]})


def upload_line(t: float, id: str, name: str, size: int) -> dict[str, Any]:  # noqa: A002 - the wire's word
    """A file has come, `size` bytes, which are not kept."""
    return {"type": "upload", "t": t, "id": id, "name": name, "size": size}
