"""`OwnWorld`: captures and puts the world of a session in this process, with the hooks of the author that belong to it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from reactor_trio.errors import CommandError
from reactor_trio.execution.author_calls import AuthorCalls
from reactor_trio.execution.author_failures import is_failure
from reactor_trio.execution.landing import Landing
from reactor_trio.interface.events import Handler
from reactor_trio.interface.saving import Moment, WorldDeclaration
from reactor_trio.plain_text import sendable
from reactor_trio.worlds import Copies, World, capture, prepare
from reactor_trio.worlds.settings import check_settings


class Place(NamedTuple):
    """Where a world is after a step: the number of the session's step; steps and seconds of the world's own time."""

    step: int
    steps: int
    age: float


class SessionWorld(Protocol):
    """The world of a session, in one process or in several."""

    async def capture(self, author: AuthorCalls, place: Place) -> World:
        """Call `@saving` and capture. Raises CommandError `cannot_save`, whose cause has the line of a hook that failed."""

    async def put(self, author: AuthorCalls, landing: Landing, before: World) -> dict[str, Any]:
        """Give the model a world; returns what `@saving` had returned. Raises CommandError; then it has that of `before`."""

    async def call_restored(self, author: AuthorCalls, landing: Landing, saved: dict[str, Any]) -> None:
        """Call `@restored`, if the model has it. Raises what it raises."""

    async def with_all_parts(self, world: World) -> World:
        """Return a captured world with the parts of all ranks. Raises CommandError `too_big`."""

    def release(self, world: World) -> None:
        """Let go of a world that was captured or put: nothing goes back to it."""


class OwnWorld:
    """A `SessionWorld` in this process.

    Args:
        declared: what the model says about its worlds.
        alone: whether this is the model's only session, so that the process's generators of random numbers are part of it.
    """

    def __init__(self, declared: WorldDeclaration, alone: bool) -> None:
        self._declared = declared
        self._alone = alone
        self._copies = Copies()
        #: whether the last put has changed the world
        self._changed = False

    async def capture(self, author: AuthorCalls, place: Place) -> World:
        """See `SessionWorld`."""
        saving = self._declared.saving
        saved = None if saving is None else await self._call_saving(author, saving)
        step, steps, age = place
        return capture(author.model, self._copies, step=step, steps=steps, age=age, saved=saved, alone=self._alone)

    async def put(self, author: AuthorCalls, landing: Landing, _before: World) -> dict[str, Any]:
        """See `SessionWorld`. Nothing has changed when it raises, so that there is nothing to put back."""
        self._changed = False
        version = self._declared.saves.version
        older = landing.version is not None and landing.version != version
        ready = prepare(author.model, landing.world, alone=self._alone, older=older)
        if not landing.same_process and (state := author.keeper.state) is not None:
            check_settings(type(state), ready.settings)
        ready.assign()
        self._changed = True
        return ready.saved

    async def put_back(self, author: AuthorCalls, before: Landing) -> None:
        """Put the world of before, unless the last put was refused here. Raises CommandError."""
        if self._changed:
            await self.put(author, before, before.world)

    async def call_restored(self, author: AuthorCalls, landing: Landing, saved: dict[str, Any]) -> None:
        """See `SessionWorld`."""
        if (restored := self._declared.restored) is not None:
            world, version = landing.world, landing.version
            version = self._declared.saves.version if version is None else version
            moment = Moment(world.step, world.age, landing.why, version, same_process=landing.same_process)
            await author.call(Handler(restored), {"saved": saved, "moment": moment})

    async def with_all_parts(self, world: World) -> World:
        """The world, which is whole."""
        return world

    def release(self, world: World) -> None:
        """Do nothing: whoever has the world has its memory."""

    async def _call_saving(self, author: AuthorCalls, saving: str) -> Any:
        try:
            return await author.call(Handler(saving), {})
        except CommandError:
            raise
        except BaseException as raised:
            if not is_failure(raised):
                raise
            raise CommandError("cannot_save", f"@saving raised {type(raised).__name__}: {sendable(raised)}") from raised
