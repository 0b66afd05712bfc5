"""`Landing`: the world that is to be put into a session, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

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
