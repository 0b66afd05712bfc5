"""A recorded session as a test: the same commands at the same steps must give the same frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reactor_trio.interface.model import Model
from reactor_trio.offline import RenderedBundle, Verification, read_recording, replay

_on_this_loop = partial(replay, thread=False)


async def assert_replays(
    recording: str | Path,
    model: type[Model],
    *,
    config: Mapping[str, Any] | None = None,
    uploads: str | Path | None = None,
    worlds: Sequence[str | Path] = (),
    frames: int | None = None,
) -> list[RenderedBundle]:
    """Run a recorded session's commands through `model` and compare every frame; returns the frames.

        async def test_the_bug_of_tuesday():
            await assert_replays("recordings/tuesday.jsonl", MyModel, config={"seed": 7})

    Args:
        recording: the timeline that `reactor run --record` wrote beside a film (`.jsonl`).
        config: what `load` gets.
        uploads: a folder with the files that the client had uploaded, by their names.
        worlds: files of the saved worlds that the recording names, or folders with them.
        frames: compare only so many instants, from the first.

    Raises AssertionError naming the first frames that differ, and how many, or that the recording cannot be verified; and
    what else `replayed_frames` raises. The model runs on the test's own loop, under a virtual clock too.
    """
    known = read_recording(recording)
    verification = Verification(known, frames)
    if not known.verifiable:
        raise AssertionError(str(verification))
    given: dict[str, Any] = {"config": config, "uploads": uploads, "worlds": worlds, "frames": frames}
    async with _on_this_loop(recording, model, **given) as replaying:
        bundles = [bundle async for bundle in replaying.rendering]
    for bundle in bundles:
        verification.compare(bundle)
    verification.close()
    if not verification.equal:
        raise AssertionError("\n".join([f"{recording}: {verification}", *replaying.warnings]))
    return bundles


async def replayed_frames(recording: str | Path, model: type[Model], **options: Any) -> list[RenderedBundle]:
    """What `model` makes of a recorded session's commands, for looking at it; `options` are those of `assert_replays`.

    Raises ScriptError if the recording cannot be read or a command is refused now, ModelFailed if model code raises.
    """
    async with _on_this_loop(recording, model, **options) as replaying:
        return [bundle async for bundle in replaying.rendering]
