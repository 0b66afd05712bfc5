"""`RankWorlds`: a rank's own parts of a session's worlds, which rank 0 has it capture and put (`LedWorld`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from reactor_trio.execution.author_calls import AuthorCalls
from reactor_trio.execution.landing import Landing
from reactor_trio.interface.declaration import Declaration
from reactor_trio.placement.ranks.rank_messages import RankWorld

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.execution.own_world import OwnWorld
    from reactor_trio.worlds import World


class RankWorlds:
    """The parts of one session's worlds on a rank that follows."""

    def __init__(self, own: OwnWorld) -> None:
        self._own = own
        self._parts: dict[int, World] = {}
        #: what `@saving` had returned for the world that was put last
        self._saved: dict[str, Any] = {}

    async def carry_out(
        self, kind: Literal["capture", "put", "put_back", "restored"], about: RankWorld, author: AuthorCalls
    ) -> int:
        """Make a call of rank 0; returns the bytes of a part that it captures, else 0. Raises what the call raises."""
        from reactor_trio.execution.own_world import Place  # late: see `open_worlds`

        for number in about.released:
            self._parts.pop(number, None)  # a rank that refused to capture has none
        if kind == "capture":
            part = self._parts[about.number] = await self._own.capture(author, Place(*about.place))
            return part.size
        landing = Landing(self._parts[about.number], about.why, about.same_process, about.version)
        match kind:
            case "put":
                self._saved = await self._own.put(author, landing, landing.world)
            case "put_back":
                await self._own.put_back(author, landing)
            case "restored":
                await self._own.call_restored(author, landing, self._saved)
        return 0


def open_worlds(declaration: Declaration) -> RankWorlds | None:
    """The worlds of a new session; None if the model saves none."""
    if declaration.world is None:
        return None
    from reactor_trio.execution.own_world import OwnWorld  # late: models without Saves import none of it

    return RankWorlds(OwnWorld(declaration.world, alone=True))
