"""The end of a session's model side, also where author code breaks it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture

from reactor_trio.interface import ReactorPipeline, disconnected, session_ended
from reactor_trio.testing import open_server


class Breaks(ReactorPipeline):
    """Its first `@disconnected` leaves a cancel scope open, which Trio notices in the runtime's scope around that hook."""

    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.log: list[str] = []

    @disconnected
    def gone(self) -> None:
        self.log.append("disconnected")
        if self.log.count("disconnected") == 1:
            trio.CancelScope().__enter__()

    @session_ended
    def end(self) -> None:
        self.log.append("session_ended")

    def inference(self) -> Any:
        try:
            while True:
                yield picture(1)
        finally:
            self.log.append("closed")


async def test_each_part_of_an_end_happens_whatever_the_one_before_has_raised(autojump_clock: object) -> None:
    with trio.fail_after(60):
        async with open_server(Breaks, step_cost=0.25) as server:
            async with server.connect() as client:
                await client.take(1)
                with pytest.raises(RuntimeError, match=r"^model code left a cancel scope or a nursery open"):
                    await client.close()
            assert sorted(server.model.log) == ["closed", "disconnected", "session_ended"]
            async with server.connect() as client:
                assert shown(await client.take(2)) == [1, 1]
