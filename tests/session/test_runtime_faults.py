"""What a session tells as the reason of its end if that is a fault of the runtime."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from reactor_trio.errors import SessionEnded
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.placement.local_session_run import LocalSessionRun
from reactor_trio.testing import open_server


class Picture(Output):
    main_video: Video


class Still(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def test_a_session_that_a_fault_of_the_runtime_ends_does_not_say_that_the_client_left(
    autojump_clock, monkeypatch, caplog
):
    async def run(self: object) -> None:
        raise ValueError("a fault of the runtime")

    monkeypatch.setattr(LocalSessionRun, "run", run)
    async with open_server(Still) as server:
        with pytest.raises(SessionEnded, match="replica_failed"):
            async with server.connect() as client:
                await client.take(1)
        (session,) = server.sessions
    assert session.reason == "replica_failed"
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"session {session.id} failed in the runtime: please report this"
    assert "ValueError: a fault of the runtime" in "".join(traceback.format_exception(record.exc_info[1]))
