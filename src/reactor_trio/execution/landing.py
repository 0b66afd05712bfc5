"""`Landing`: the world that is to be put into a session, and why; `LoadedWorld`: one of the store on its way there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from reactor_trio.crossing.world_pieces import PackedWorld
from reactor_trio.errors import CommandError

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.worlds import World

Why: TypeAlias = Literal["rewind", "restore", "fork"]


@dataclass
class Landing:
    """A world on its way into a session.

    Attributes:
        world: what is put.
        why: what has brought it: a rewind to a kept moment, a saved world, or the moment at which a new session begins.
        same_process: whether it was captured in this process.
        version: the `Saves.version` it was saved with; None: that of the model.
        from_age: seconds of the world's own time at the step that was on screen, for a rewind.
        refused: why it could not be put, so that the session stands as before.
    """

    world: World
    why: Why
    same_process: bool = True
    version: int | None = None
    from_age: float | None = None
    refused: CommandError | None = None


class LoadedWorld(NamedTuple):
    """A world of the store.

    Attributes:
        version: the `Saves.version` it was saved with.
        warnings: what may make a difference.
        world: what is put; None where it has come from another process.
        parts: the same, packed for another process; none if the model is in this one.
        data: what has come from another process.
        why: what brings it.
        digest: by which a recording names it.
    """

    version: int
    warnings: list[str]
    world: World | None = None
    parts: Sequence[memoryview] = ()
    data: PackedWorld | None = None
    why: Literal["restore", "fork"] = "restore"
    digest: str = ""

    def unpacked(self, classes: Mapping[str, type]) -> World:
        """The world itself, of which these classes may be a part. Raises CommandError."""
        if self.world is not None:
            return self.world
        from reactor_trio.worlds.unsigned import unpack_unsigned  # late: models without Saves import none of it

        assert self.data is not None
        return unpack_unsigned(self.data, classes)
