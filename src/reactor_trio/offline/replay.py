"""`replay`: runs the commands of a recorded session again, each at the first step that saw it, and compares the frames.

Frames are compared by track and number. A number that the recording lacks was dropped in the live session, by a flush or by
`emit(drop=True)`. A number that the model does not make again is a difference.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reactor_trio.configuration.manifest import Manifest
from reactor_trio.interface.model import Model
from reactor_trio.offline.open_rendering import render
from reactor_trio.offline.recorded_session import Fingerprint, Recording, read_recording
from reactor_trio.offline.rendering import RenderedBundle, Rendering
from reactor_trio.offline.script_uploads import Uploads
from reactor_trio.recording import config_digest, frame_digest

#: Number of differences that are described.
DESCRIBED = 3


@dataclass
class Verification:
    """Compares the bundles of a replay with a recording: call `compare` for each bundle, on any thread, then `close`.

    Args:
        bundles: number of bundles that are replayed, from the first on; None for all.

    Attributes:
        compared: number of frames compared.
        different: number of frames that differ, or that the model did not make again.
        unknown: number of frames without a digest in the recording.
        described: the first differences, in words.
    """

    recording: Recording
    bundles: int | None = None
    compared: int = 0
    different: int = 0
    unknown: int = 0
    described: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left: dict[tuple[str, int], Fingerprint] = {}
        for known in self.recording.fingerprints:
            if self.bundles is not None and known.bundle >= self.bundles:
                break
            if known.digest is None:
                self.unknown += 1
            else:
                self._left[known.track, known.seq] = known

    def compare(self, bundle: RenderedBundle) -> None:
        """Compare the next bundle of the replay."""
        for track, frame in bundle.tracks.items():
            known = self._left.pop((track, bundle.seqs[track]), None)
            if known is None:
                continue
            self.compared += 1
            if known.shape != frame.shape:
                self._differs(known, f"it was {_size(known.shape)} and is {_size(frame.shape)}")
            elif known.digest != frame_digest(frame):
                self._differs(known, "its content differs")
            elif known.step != bundle.step:
                self._differs(known, f"step {bundle.step} made it")

    def close(self) -> None:
        """End the replay: count the frames that were not made again."""
        self._missing += len(self._left)
        for known in self._left.values():
            self._differs(known, "it was not made again")
        self._left.clear()

    @property
    def equal(self) -> bool:
        """Whether at least one frame was compared, and none differs."""
        return not self.different and self.compared > 0

    def __str__(self) -> str:
        unknown = f"; of {self.unknown} more the recording has no digest" if self.unknown else ""
        if not self.recording.verifiable:
            return f"{self.recording.path} has no digests of its frames, so they cannot be compared"
        if self.equal:
            return f"{self.compared} frames, all the same{unknown}"
        number = self.compared + self._missing
        return f"{self.different} of {number} frames differ, first {'; '.join(self.described)}{unknown}"

    _missing = 0

    def _differs(self, known: Fingerprint, how: str) -> None:
        self.different += 1
        if len(self.described) < DESCRIBED:
            self.described.append(f"step {known.step}, track {known.track}, frame {known.seq}: {how}")


@dataclass
class Replay:
    """A running replay.

    Attributes:
        rendering: its bundles, for `async for` or `write`.
        warnings: what the recording lacks, and what differs from it before the start; one line each.
    """

    recording: Recording
    rendering: Rendering
    warnings: list[str]


@asynccontextmanager
async def replay(
    recording: Recording | str | Path,
    model: type[Model] | Manifest,
    *,
    config: Mapping[str, Any] | None = None,
    uploads: str | Path | None = None,
    worlds: Sequence[str | Path] = (),
    frames: int | None = None,
    **options: Any,
) -> AsyncGenerator[Replay, None]:
    """Load a model and run a recorded session's commands.

    The replay ends with the last frame of the recording; if that has no frames, after its length in seconds. `uploads` is a
    folder with the files that the client had uploaded, by their names. `worlds` are files of saved worlds, or folders with
    such files, as a store is; the recording names those that it needs by their digests. `frames` ends the replay earlier.
    `options` are those of `render`.

    Raises what `render` raises, and ScriptError for what the recording lacks.
    """
    if not isinstance(recording, Recording):
        recording = read_recording(recording)
    limit: dict[str, Any] = {"frames": frames or recording.bundles or None}
    if limit["frames"] is None:
        limit = {"seconds": max(recording.seconds, 0.001)}
    given = config if config is not None else model.config if isinstance(model, Manifest) else {}
    files = Uploads(None if uploads is None else Path(uploads), recording.uploads)
    script = recording.commands
    async with render(model, config=config, script=script, uploads=files, worlds=worlds, **limit, **options) as rendering:
        yield Replay(recording, rendering, warnings_of(recording, rendering, given))


def warnings_of(recording: Recording, rendering: Rendering, config: Mapping[str, Any]) -> list[str]:
    """Describe what may make a replay differ."""
    warnings = []
    if recording.inputs:
        warnings.append(f"what the client sent on {', '.join(recording.inputs)} is not in the recording")
    if recording.failed:
        warnings.append(f"{recording.failed} commands failed in their handlers and are left out, with what they had changed")
    if recording.uploads and rendering.declaration.file_uploaded is not None:
        warnings.append("when the model was told of uploads (@file_uploaded) is not in the recording, so it is not")
    from reactor_trio.server.run_facts import versions

    made = type(rendering.model)
    name = f"{made.__module__}:{made.__qualname__}"
    if recording.model is not None and recording.model != name:
        warnings.append(f"it was recorded with {recording.model}, this is {name}")
    if recording.config is not None and recording.config != config_digest(config, recording.session_id):
        warnings.append("the model's config is not the one that it was recorded with")
    installed = versions()
    return warnings + [
        f"it was recorded with {package} {version}, this is {here}"
        for package, version in recording.versions.items()
        if (here := installed.get(package)) is not None and here != version
    ] + rendering.warnings


def _size(shape: tuple[int, ...] | None) -> str:
    return "x".join(map(str, shape or ()))
