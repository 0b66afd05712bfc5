"""`read_recording`: reads the timeline of a recorded session, its commands and its frames.

`docs/reference/runtime/recording.md` lists the lines of a timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from reactor_trio.offline.script import ScriptCommand, ScriptError, commands_of_timeline, is_timeline, read_lines
from reactor_trio.offline.script_uploads import RecordedUpload


class Fingerprint(msgspec.Struct, frozen=True):
    """One frame of the recording.

    Attributes:
        bundle: number of its bundle, from 0.
        digest: of its content; None if the server had no time to compute it.
    """

    bundle: int
    step: int
    track: str
    seq: int
    shape: tuple[int, ...] | None
    digest: str | None


class _Frame(msgspec.Struct):
    seq: int
    shape: tuple[int, ...] | None = None
    digest: str | None = None


class _Frames(msgspec.Struct):
    step: int
    tracks: dict[str, _Frame]


class _Run(msgspec.Struct):
    model: str | None = None
    config: str | None = None
    versions: dict[str, str] = {}


class Recording(msgspec.Struct, frozen=True):
    """The content of a timeline.

    Attributes:
        session_id: id of the session.
        name: name of its model.
        commands: the commands that were carried out, each at the first step that saw it.
        fingerprints: the frames, in order; empty if the recording has none.
        bundles: number of bundles in the recording.
        seconds: its length.
        uploads: upload id -> the client's file. The recording does not hold the content.
        inputs: tracks on which the client may have sent frames, which the recording does not hold.
        failed: number of commands whose handler raised. The recording does not say what they changed before.
        model: `module:Class`, None if the recording does not say.
        config: digest of the model's config, None if the recording does not say.
        versions: package -> version, empty if the recording does not say.
    """

    path: Path
    session_id: str
    name: str
    commands: list[ScriptCommand]
    fingerprints: list[Fingerprint]
    bundles: int
    seconds: float
    uploads: Mapping[str, RecordedUpload]
    inputs: tuple[str, ...]
    failed: int
    model: str | None
    config: str | None
    versions: Mapping[str, str]

    @property
    def verifiable(self) -> bool:
        """Whether the recording has a digest of any frame."""
        return any(print.digest is not None for print in self.fingerprints)  # noqa: A001


def read_recording(path: str | Path) -> Recording:
    """Read the timeline of a session, the `.jsonl` beside a film. Raises ScriptError."""
    path = Path(path)
    if path.suffix.lower() != ".jsonl":
        raise ScriptError(f"{path}: a recording is replayed from its timeline: name the .jsonl file beside the film")
    entries = read_lines(path)
    if not is_timeline(entries):
        raise ScriptError(f"{path}:1: this is no timeline of a session, whose first line has the type session")
    head = entries[0][1]
    frames: list[Fingerprint] = []
    uploads: dict[str, RecordedUpload] = {}
    bundles, seconds, failed = 0, 0.0, 0
    for where, line in entries[1:]:
        if not isinstance(line, dict):
            raise ScriptError(f"{where}: expected a line of a timeline, got {type(line).__name__}")
        if isinstance(t := line.get("t"), int | float):
            seconds = max(seconds, t)
        match line.get("type"):
            case "frames":
                made = _as(where, line, _Frames)
                frames += [
                    Fingerprint(bundles, made.step, name, f.seq, f.shape, f.digest) for name, f in made.tracks.items()
                ]
                bundles += 1
            case "upload":
                upload = _as(where, line, RecordedUpload)
                uploads[upload.id] = upload
            case "command":
                failed += line.get("code") == "internal_error"
    run = _as(entries[0][0], head.get("run") or {}, _Run)
    tracks = (head.get("schema") or {}).get("tracks") or []
    inputs = tuple(track["name"] for track in tracks if isinstance(track, dict) and track.get("direction") == "in")
    return Recording(
        path, str(head.get("session_id")), str(head.get("name")), commands_of_timeline(entries), frames, bundles, seconds,
        uploads, inputs, failed, run.model, run.config, run.versions,
    )  # fmt: skip


def _as(where: str, line: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(line, kind)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{where}: {error}") from None
