"""`LedWorld`: the world of a session on several ranks. Each rank captures and puts its own part, at the same step."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.execution.author_calls import AuthorCalls
from reactor_trio.execution.landing import Landing
from reactor_trio.placement.ranks.rank_messages import CallKind, RankWorld

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.execution.own_world import OwnWorld, Place
    from reactor_trio.worlds import World

T = TypeVar("T")


class LeadsCalls(Protocol):
    """Has every rank make the calls of a session; see `LedCalls`."""

    async def lead(self, kind: CallKind, make: Callable[[], Awaitable[T]], **about: Any) -> T:
        """Have every rank make a call, this one by `make`."""

    async def agree(self, code: str) -> int:
        """Return when every rank has made it; see `Leader.agree`."""


class LedWorld:
    """A `SessionWorld` on several ranks, on rank 0.

    Args:
        own: the part of this rank.
        calls: those of the session.
    """

    def __init__(self, own: OwnWorld, calls: LeadsCalls) -> None:
        self._own = own
        self._calls = calls
        self._count = itertools.count(1)
        #: id of each world that this rank keeps -> its number on every rank
        self._numbers: dict[int, int] = {}
        self._released: list[int] = []

    async def capture(self, author: AuthorCalls, place: Place) -> World:
        """Capture on every rank, or on none."""
        number = next(self._count)
        try:
            world = await self._lead("capture", partial(self._own.capture, author, place), RankWorld(number, place=place))
            others = await self._calls.agree("cannot_save")
        except BaseException:
            self._released.append(number)
            raise
        if others > world.size:  # all ranks have the same budget, and the largest part counts
            world = msgspec.structs.replace(world, small_bytes=world.small_bytes + others - world.size)
        self._numbers[id(world)] = number
        return world

    async def put(self, author: AuthorCalls, landing: Landing, before: World) -> dict[str, Any]:
        """Put on every rank, or on none. Raises RuntimeError if a rank then cannot have the world of before back."""
        try:
            saved = await self._lead("put", partial(self._own.put, author, landing, before), self._about(landing))
            await self._calls.agree("restore_failed")
        except CommandError:
            await self._put_back(author, Landing(before, landing.why))
            raise
        return saved

    async def call_restored(self, author: AuthorCalls, landing: Landing, saved: dict[str, Any]) -> None:
        """Call `@restored` on every rank."""
        await self._lead("restored", partial(self._own.call_restored, author, landing, saved), self._about(landing))
        await self._calls.agree("restore_failed")

    def release(self, world: World) -> None:
        """Have every rank let go of its part, at the next call."""
        self._released.append(self._numbers.pop(id(world)))

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _put_back(self, author: AuthorCalls, before: Landing) -> None:
        try:
            await self._lead("put_back", partial(self._own.put_back, author, before), self._about(before))
            await self._calls.agree("restore_failed")
        except CommandError as error:
            raise RuntimeError(f"the ranks have different worlds: that of before cannot be put back: {error}") from error

    async def _lead(self, kind: CallKind, make: Callable[[], Awaitable[T]], about: RankWorld) -> T:
        released, self._released = tuple(self._released), []
        return await self._calls.lead(kind, make, world=msgspec.structs.replace(about, released=released))

    def _about(self, landing: Landing) -> RankWorld:
        return RankWorld(
            self._numbers[id(landing.world)], why=landing.why, same_process=landing.same_process, version=landing.version
        )
