"""`LedWorld`: the world of a session on several ranks. Each rank captures and puts its own part, at the same step."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import trio

from reactor_trio.crossing.world_pieces import PackedWorld
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

    def send_parts(self, parts: Sequence[PackedWorld]) -> None:
        """Send each of the other ranks its part of a world, in a call `unpack`."""

    def take_parts(self) -> tuple[PackedWorld, ...]:
        """Take what the other ranks have sent in a call `pack`; all of it has come."""

    def drop_parts(self) -> None:
        """Drop what the other ranks have sent, and what still comes."""

    @property
    def others(self) -> int:
        """How many ranks there are besides this one."""


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
        return _numbered(world, number, others)

    async def put(self, author: AuthorCalls, landing: Landing, before: World) -> dict[str, Any]:
        """Put on every rank, or on none. Raises RuntimeError if a rank then cannot have the world of before back."""
        if not landing.world.number:
            landing.world = await self._sent_out(landing.world)
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

    async def with_all_parts(self, world: World) -> World:
        """Bring the parts of the other ranks here. Every rank waits until they are: they may be large."""
        try:
            await self._lead("pack", trio.lowlevel.cancel_shielded_checkpoint, RankWorld(world.number))
            await self._calls.agree("too_big")
            return msgspec.structs.replace(world, elsewhere=0, others=self._calls.take_parts())
        finally:
            self._calls.drop_parts()

    def release(self, world: World) -> None:
        """Have every rank let go of its part, at the next call."""
        if world.number:
            self._released.append(world.number)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _sent_out(self, world: World) -> World:
        """Give the other ranks their parts of a world that has come packed. Raises CommandError if one cannot read it."""
        from reactor_trio.worlds.file_header import damaged  # late: as above all of `worlds`

        number, parts = next(self._count), world.others
        if len(parts) != self._calls.others or not all(map(len, parts)):
            raise damaged("it does not have one part for each rank")

        async def send() -> None:  # without a checkpoint: a rank waits for all of its part
            self._calls.send_parts(parts)

        try:
            await self._lead("unpack", send, RankWorld(number))
            await self._calls.agree("damaged_world")
        except BaseException:
            self._released.append(number)
            raise
        return _numbered(msgspec.structs.replace(world, others=()), number, max(map(len, parts)))

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
            landing.world.number, why=landing.why, same_process=landing.same_process, version=landing.version
        )


def _numbered(world: World, number: int, others: int) -> World:
    """The world with its number. All ranks have the same budget, and the largest part counts: `others` are its bytes."""
    return msgspec.structs.replace(world, number=number, elsewhere=max(0, others - world.size))
