"""`Worlds`: finds the worlds that a recording restores: in files, by their digests, or among those that it has saved itself.

A file is taken for the digest alone: the recording names it, it covers all of the file, and no class is made that the model
does not list. So a replay needs no key. A rendering imports this module only for a model that saves its worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.execution.landing import LoadedWorld
from reactor_trio.interface.saving import WorldDeclaration
from reactor_trio.offline.script import ScriptCommand, ScriptError
from reactor_trio.protocol import playback_arguments
from reactor_trio.world_store.shelves import ENDING
from reactor_trio.worlds import World
from reactor_trio.worlds.file_header import ANY_SIZE, check_origin, world_digest
from reactor_trio.worlds.unpacking import read_head, read_header, read_world
from reactor_trio.worlds.weights import weights_of

#: commands that may name a kept moment
_AT_STEP: Final = ("reactor.rewind", "reactor.save", "reactor.fork")


class SavedBefore(NamedTuple):
    """The world that an earlier command of the script saves: the number of that command, and the model's `Saves.version`."""

    number: int
    version: int

    def loaded(self, world: World) -> LoadedWorld:
        """The captured world, as if it came from its file."""
        return LoadedWorld(self.version, [], world)


class Worlds:
    """The worlds of one script.

    Args:
        places: files, and folders with files. Raises ScriptError for one that is not there, and for a file that is no world.
        declared: what the model says about its worlds.
        model: the model instance.

    Attributes:
        warnings: what may make a difference; one line each.
    """

    def __init__(self, places: Sequence[str | Path], declared: WorldDeclaration, model: Any) -> None:
        self.warnings: list[str] = []
        self._declared = declared
        self._model = model
        self._files = {digest: path for place in places for digest, path in _digests(Path(place))}
        #: the digest of each world that the script has saved until now -> the number of the command
        self._saves: dict[str, int] = {}

    def arguments(self, number: int, entry: ScriptCommand, data: bytes) -> dict[str, Any]:
        """The arguments of a command about worlds, which has this number. Raises CommandError and ScriptError.

        Args:
            data: the arguments of the script as JSON.
        """
        digest = entry.arguments.get("digest")
        if entry.name != "reactor.restore":
            if digest is not None:
                self._saves[digest] = number
            return playback_arguments(entry.name, data)
        if digest is None:
            raise ScriptError("the recording does not say which world that was; it is of an older version")
        if digest in self._files:
            loaded = self._load(self._files[digest])
            return {"world": "", "loaded": loaded._replace(why=entry.arguments.get("why", "restore"))}
        if digest in self._saves:
            return {"world": "", "saved_before": SavedBefore(self._saves[digest], self._declared.saves.version)}
        raise ScriptError(f"the file of {_named(entry.arguments)} is missing: name it, or the folder of the store, with "
                          "--world (worlds=)")  # fmt: skip

    def _load(self, path: Path) -> LoadedWorld:
        saves = self._declared.saves
        try:
            with path.open("rb") as file:
                header = read_header(file, None, ANY_SIZE)
                here = msgspec.structs.replace(header.origin, version=saves.version, weights=weights_of(self._model))
                warnings = check_origin(header.origin, here, reads=saves.reads, accept=("weights",))
                world = read_world(file, header, self._declared.classes)
        except (OSError, CommandError) as error:
            raise ScriptError(f"{path}: {error}") from None
        self.warnings += [f"{path}: {warning}" for warning in warnings]
        return LoadedWorld(header.origin.version, warnings, world)


def named_moments(commands: Sequence[ScriptCommand]) -> frozenset[int] | None:
    """The steps of the moments to which the commands go back; None if that is not known before.

    A recording names each by the step where the session landed, which was before.
    """
    steps: set[int] = set()
    for each in commands:
        relative = each.arguments.get("steps"), each.arguments.get("seconds")
        if each.name == "reactor.rewind" and relative != (None, None):
            return None
        if each.name in _AT_STEP and (step := each.arguments["step"]) is not None:
            if each.step is None or step >= each.step:
                return None
            steps.add(step)
    return frozenset(steps)


def _digests(place: Path) -> Iterator[tuple[str, Path]]:
    """The digest of a file, or of each world in a folder. Raises ScriptError."""
    in_folder = place.is_dir()
    for path in sorted(place.glob("*" + ENDING)) if in_folder else [place]:
        try:
            with path.open("rb") as file:
                yield world_digest(read_head(file, ANY_SIZE)), path
        except (OSError, CommandError) as error:
            if not in_folder:
                raise ScriptError(f"{place}: {getattr(error, 'strerror', None) or error}") from None


def _named(arguments: Mapping[str, Any]) -> str:
    age = arguments.get("age")
    old = f"{age:.3f} s old, " if isinstance(age, float) else ""
    return f"the saved world of step {arguments.get('step')} ({old}digest {arguments.get('digest')})"
