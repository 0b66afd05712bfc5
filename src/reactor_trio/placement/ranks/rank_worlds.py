"""`RankWorlds`: a rank's own parts of a session's worlds, which rank 0 has it capture and put (`LedWorld`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from reactor_trio.crossing.world_pieces import PackedWorld
from reactor_trio.execution.author_calls import AuthorCalls
from reactor_trio.execution.landing import Landing
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.saving import WorldDeclaration
from reactor_trio.placement.ranks.rank_messages import RankWorld, WorldCall

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.execution.own_world import OwnWorld
    from reactor_trio.worlds import World


class RankWorlds:
    """The parts of one session's worlds on a rank that follows.

    Args:
        declared: what the model says about its worlds.
        own: captures and puts them.
        send: sends rank 0 a part that is packed into these views.
        arrived: returns the packed part that rank 0 sends in this call.
    """

    def __init__(
        self,
        declared: WorldDeclaration,
        own: OwnWorld,
        send: Callable[[Sequence[memoryview]], None],
        arrived: Callable[[], Awaitable[PackedWorld]],
    ) -> None:
        self._declared = declared
        self._own = own
        self._send = send
        self._arrived = arrived
        self._parts: dict[int, World] = {}
        #: what `@saving` had returned for the world that was put last
        self._saved: dict[str, Any] = {}

    async def carry_out(self, kind: WorldCall, about: RankWorld, author: AuthorCalls) -> int:
        """Make a call of rank 0; returns the bytes of a part that it captures, else 0. Raises what the call raises."""
        from reactor_trio.execution.own_world import Place  # late: see `open_worlds`
        from reactor_trio.worlds.unsigned import pack_unsigned, unpack_unsigned

        for number in about.released:
            self._parts.pop(number, None)  # a rank that refused to capture has none
        if kind == "capture":
            part = self._parts[about.number] = await self._own.capture(author, Place(*about.place))
            return part.size
        if kind == "unpack":
            with trio.CancelScope(shield=True):  # rank 0 sends all of it, whatever becomes of the call
                packed = await self._arrived()
            self._parts[about.number] = unpack_unsigned(packed, self._declared.classes)
            return 0
        if kind == "pack":
            self._send(pack_unsigned(self._parts[about.number]))
            return 0
        landing = Landing(self._parts[about.number], about.why, about.same_process, about.version)
        match kind:
            case "put":
                self._saved = await self._own.put(author, landing, landing.world)
            case "put_back":
                await self._own.put_back(author, landing)
            case "restored":
                await self._own.call_restored(author, landing, self._saved)
        return 0


def open_worlds(
    declaration: Declaration,
    send: Callable[[Sequence[memoryview]], None],
    arrived: Callable[[], Awaitable[PackedWorld]],
) -> RankWorlds | None:
    """The worlds of a new session, see `RankWorlds`; None if the model saves none."""
    if declaration.world is None:
        return None
    from reactor_trio.execution.own_world import OwnWorld  # late: models without Saves import none of it

    return RankWorlds(declaration.world, OwnWorld(declaration.world, alone=True), send, arrived)
