"""A recorded session, as its timeline tells it (`docs/guide/recording.md`): what to feed the model, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from reactor_trio.offline.script import ScriptCommand, ScriptError, commands_of_timeline, is_timeline, read_lines
from reactor_trio.offline.script_uploads import RecordedUpload


class Fingerprint(msgspec.Struct, frozen=True):
    """What is known of one frame that the model made; `digest` None: it was not taken, for want of time.

    `bundle` counts the instants of the recording.
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


class _Upload(RecordedUpload, frozen=True):
    id: str = ""


class Recording(msgspec.Struct, frozen=True):
    """A timeline, read.

    Attributes:
        session_id, name: of the session and its model.
        commands: those that were carried out, each at the step that saw it first.
        fingerprints: of the frames, in order; empty if the recording has none.
        bundles: instants that the model made, as far as the recording tells.
        seconds: how long it lasted.
        uploads: the client's files, by id; their content is not in it.
        inputs: tracks on which the client may have sent frames, which are not in it.
        failed: commands whose handler raised; what they changed before that is not known.
        model, config, versions: what it was made with; of the config a digest. None and empty: it does not say.
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
        """Whether it says anything of its frames."""
        return any(print.digest is not None for print in self.fingerprints)  # noqa: A001


def read_recording(path: str | Path) -> Recording:
    """Read the timeline of a session, a film's `.jsonl`. Raises ScriptError."""
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
                upload = _as(where, line, _Upload)
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
