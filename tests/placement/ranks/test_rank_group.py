"""The ranks of a model as one process: which of them are silent."""

from __future__ import annotations

from typing import Any, cast

import trio
import trio.testing

from reactor_trio.placement.isolation.ipc_messages import Ping, Pong
from reactor_trio.placement.ranks.rank_group import RankGroup


class Rank:
    """A rank that says what the test says; it is its own link."""

    wire = memory = None

    def __init__(self) -> None:
        self.link = self
        self.says: Any = None

    def send(self, message: object, session: int = 0) -> None: ...

    async def receive(self, handle: Any) -> None:
        self.says = lambda message: handle(message, 0)
        await trio.sleep_forever()

    async def gone(self) -> None:
        await trio.sleep_forever()


async def test_the_ranks_that_have_not_answered_the_newest_ping_are_named() -> None:
    ranks = [Rank(), Rank(), Rank()]
    group = RankGroup(cast(Any, ranks))
    came: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group.receive, lambda message, _session: came.append(message))
        await trio.testing.wait_all_tasks_blocked()
        found = [group.silent()]
        for number in (1, 2):
            group.send(Ping(number))
            found.append(group.silent())
            for rank in (ranks[1], ranks[0], ranks[2]):
                rank.says(Pong(number))
                found.append(group.silent())
        nursery.cancel_scope.cancel()
    assert found == ["", *["of rank 0 and 1 and 2 ", "of rank 0 and 2 ", "of rank 2 ", ""] * 2]
    assert came == [Pong(1), Pong(2)]
