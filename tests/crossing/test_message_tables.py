"""Each side of a session has a function for each message that the other may send, and for no other."""

from __future__ import annotations

import numpy as np
import pytest

from reactor_trio.crossing.channel import Handlers
from reactor_trio.crossing.local_channel import LocalEnd
from reactor_trio.crossing.messages import FROM_MODEL, TO_MODEL
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.offline import rendered
from reactor_trio.placement.isolation.remote_session_run import SocketEnd
from reactor_trio.testing import open_server


class Picture(Output):
    main_video: Video


class Still(ReactorPipeline):
    def inference(self):
        yield Picture(main_video=np.zeros((2, 2, 3), np.uint8))


@pytest.fixture
def tables(monkeypatch):
    """The tables of all ends, as they are given."""
    given: list[set[type]] = []

    def recorded(passes):
        def connect(end: object, handlers: Handlers) -> None:
            given.append(set(handlers))
            passes(end, handlers)

        return connect

    for end in LocalEnd, SocketEnd:
        monkeypatch.setattr(end, "connect", recorded(end.connect))
    return given


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["thread", "process"])
async def test_the_table_of_each_end_is_complete(autojump_clock, tables, how):
    async with open_server(Still, **how) as server, server.connect() as client:
        await client.take(1)
    assert len(tables) >= 2
    assert all(table in (set(TO_MODEL), set(FROM_MODEL)) for table in tables)
    assert set(TO_MODEL) in tables
    assert set(FROM_MODEL) in tables


def test_the_tables_of_a_rendering_are_complete_but_for_what_needs_a_client(tables):
    assert len(rendered(Still, frames=1)) == 1
    model, film = tables if set(TO_MODEL) == tables[0] else reversed(tables)
    assert model == set(TO_MODEL)
    assert {kind.__name__ for kind in set(FROM_MODEL) - film} == {"LateCall"}
