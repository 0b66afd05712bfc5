"""The moments of one session, on the model loop: it keeps the world after steps, and puts one back.

A *world* is all that the model needs to go on with the session as it was; a *moment* is the world after one step, kept in
memory (`worlds`). Here is when one is kept, which one a client means, and what belongs to putting it back: the author's
hooks, and the world of before if they raise.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio
from msgspec import structs

from reactor_trio.concurrency import log_author_error, place_of
from reactor_trio.errors import CommandError
from reactor_trio.execution.author_calls import AuthorCalls
from reactor_trio.execution.author_failures import is_failure
from reactor_trio.execution.landing import Landing
from reactor_trio.execution.own_world import OwnWorld, Place, SessionWorld
from reactor_trio.interface.saving import WorldDeclaration
from reactor_trio.protocol import WorldList, WorldMoment
from reactor_trio.worlds import UNDO_FOR, Ring, World
from reactor_trio.worlds.file_header import ANY_SIZE
from reactor_trio.worlds.packing import too_big

log = logging.getLogger("reactor_trio.model")

#: the part of the model's time that may go into keeping moments
SHARE: Final = 0.05
#: seconds of the world's own time that its moments reach back
REACH: Final = 300.0
#: steps whose place in the world's own time is known although their moments may be gone: those that may be on screen
KNOWN_STEPS: Final = 1024


class SessionMoments:
    """Keeps the moments of one session.

    Args:
        declared: what the model says about its worlds.
        size: bytes that the moments may have together. With 0 it keeps no moment, since no client may go back to one.
        alone: see `OwnWorld`.
        most_saved: bytes that a saved world may have.
        named: the steps whose moments are kept, however many bytes they have and however long it takes: those to which the
            commands of a recording go back. None: each step's, within the limits.
    """

    def __init__(
        self, declared: WorldDeclaration, size: int, alone: bool, most_saved: int, named: frozenset[int] | None = None
    ) -> None:
        self._named = named
        self._ring = Ring(size if named is None else ANY_SIZE, REACH)
        self._own = OwnWorld(declared, alone)
        self._use(self._own)
        self._most_saved = most_saved
        self._place = Place(-1, 0, 0.0)
        self._known: deque[Place] = deque(maxlen=KNOWN_STEPS)
        self._next_at = -math.inf
        #: code and message of why no moment can be kept
        self._cannot_save: tuple[str, str] | None = None
        self._told = False  # the log has it

    def lead(self, led: Callable[[OwnWorld], SessionWorld]) -> None:
        """Before the first step: have the world be captured and put on every rank, by what `led` makes."""
        self._use(led(self._own))

    async def step_ended(self, author: AuthorCalls, step: int, seconds: float, whole: bool = True) -> None:
        """Note that a step has ended, and keep its moment unless that would take too much of the model's time.

        Args:
            author: has the model and its state, and calls its hooks.
            step: its number.
            seconds: for which its frames are shown.
            whole: whether the world is whole; if not, no moment is kept.
        """
        self._place = Place(step, self._place.steps + 1, self._place.age + seconds)
        self._known.append(self._place)
        self._ring.forget_ahead()
        began = trio.current_time()
        wanted = began >= self._next_at if self._named is None else step in self._named
        if not wanted or not whole or self._cannot_save is not None or not self._ring.most_bytes:
            return
        try:
            world = await self._world.capture(author, self._place)
        except CommandError as error:
            self._cannot_save = error.code, error.message
            self._tell(error, "no moment of this session can be kept")
            return
        if not self._ring.add(world, began):
            self._world.release(world)
        ended = trio.current_time()
        self._next_at = ended + (ended - began) * (1 / SHARE - 1)

    def landing(self, arguments: dict[str, Any], shown_step: int) -> World:
        """Return the world to which a client's `reactor.rewind` goes back. Raises CommandError if the session keeps none.

        Args:
            arguments: see `protocol.client_messages.Rewind`.
            shown_step: the step on screen as the client asked, from which `steps` and `seconds` count back.
        """
        if self._cannot_save is not None:
            raise CommandError(*self._cannot_save)
        if arguments["undo"]:
            if (before := self._ring.undo(self._now())) is None:
                raise CommandError("no_moment", f"there is nothing to undo: no rewind in the last {UNDO_FOR:g} s")
            return before
        if (step := arguments["step"]) is not None:
            world = self._ring.at_step(step)
        elif (steps := arguments["steps"]) is not None:
            world = self._ring.at_steps(self._shown(shown_step).steps - steps)
        else:
            world = self._ring.at_age(self._shown(shown_step).age - arguments["seconds"] + 1e-6)  # ages are sums
        if world is None:
            raise CommandError("no_moment", "no moment of this session is kept yet")
        return world

    def age_of(self, shown_step: int) -> float:
        """Seconds of the world's own time at the step on screen."""
        return self._shown(shown_step).age

    def listing(self) -> WorldList:
        """The moments that are kept, as a client sees them; which of them have a picture is known elsewhere."""
        ring = self._ring
        undo = ring.undo(trio.current_time())
        moments = tuple(map(_described, [*ring.past, *ring.ahead]))
        return WorldList(moments, ring.bytes, ring.most_bytes, undo=None if undo is None else _described(undo))

    async def to_save(self, author: AuthorCalls, step: int | None) -> World:
        """The world as it is, or the newest kept moment at or before a step.

        Raises CommandError if no such moment is kept, or if the world is too big.
        """
        if step is not None:
            return await self._whole(self.landing({"undo": None, "step": step}, step))
        world = await self._world.capture(author, self._place)
        try:
            return await self._whole(world)
        finally:
            self._world.release(world)

    async def put(self, author: AuthorCalls, landing: Landing) -> CommandError | None:
        """Put a world. If that cannot be done, the world stays as it is, and the error is returned.

        Raises what `@restored` raises if the world of before cannot be put back either, and what is no failure of it.
        """
        try:
            before = await self._world.capture(author, self._place)
        except CommandError as error:
            self._tell(error, "no world is put into this session, since that of before cannot be kept")
            return error
        if (refused := await self._put(author, landing, before)) is not None:
            self._world.release(before)
            if landing.why != "rewind":
                self._world.release(landing.world)
            return refused
        world = landing.world
        if landing.why == "rewind":
            self._ring.rewind(world, before, self._now())
        else:  # its steps have numbers of another session
            self._ring.begin_at(structs.replace(world, step=self._place.step), before, self._now())
        self._place = Place(self._place.step, world.steps, world.age)
        self._known.append(self._place)  # the picture of the moment, which is shown as that of the newest step
        return None

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        """The time for `undo`. A recording has those that came in time; a replay may be slower."""
        return trio.current_time() if self._named is None else 0.0

    def _use(self, world: SessionWorld) -> None:
        self._world = world
        self._ring.released = world.release

    async def _put(self, author: AuthorCalls, landing: Landing, before: World) -> CommandError | None:
        try:
            saved = await self._world.put(author, landing, before)
        except CommandError as error:
            return error
        try:
            await self._world.call_restored(author, landing, saved)
        except BaseException as raised:
            if not is_failure(raised):
                raise
            log_author_error(log, raised, "@restored raised, so the world stays as it was")
            back = Landing(before, landing.why)
            await self._world.call_restored(author, back, await self._world.put(author, back, before))
            return CommandError("restore_failed", f"@restored raised {type(raised).__name__}; the world stays as it was")
        return None

    async def _whole(self, world: World) -> World:
        self._check_size(world)  # before the parts of other ranks are brought here
        whole = await self._world.with_all_parts(world)
        self._check_size(whole)
        return whole

    def _check_size(self, world: World) -> None:
        if world.size > self._most_saved:
            raise too_big(world.size, self._most_saved)

    def _tell(self, error: CommandError, what: str) -> None:
        """Log why a world cannot be captured, once."""
        if not self._told:
            self._told = True
            place = place_of(error)
            log.warning("%s: %s%s", what, error, f" (at {place})" if place else "")

    def _shown(self, step: int) -> Place:
        """The place of a step in the world's own time; that of the oldest known one if it is older."""
        for place in reversed(self._known):
            if place.step <= step:
                return place
        return self._known[0] if self._known else self._place


def _described(world: World) -> WorldMoment:
    return WorldMoment(world.step, world.age, world.size)
