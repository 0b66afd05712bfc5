"""What a session tells as the reason of its end if that is a fault of the runtime."""

from __future__ import annotations

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


async def test_a_session_that_a_fault_of_the_runtime_ends_does_not_say_that_the_client_left(autojump_clock, monkeypatch):
    async def run(self: object) -> None:
        raise ValueError("a fault of the runtime")

    monkeypatch.setattr(LocalSessionRun, "run", run)
    reasons = []
    with pytest.raises(BaseExceptionGroup) as fault:
        async with open_server(Still) as server:
            with pytest.raises(SessionEnded):
                async with server.connect() as client:
                    await client.take(1)
            reasons += [session.reason for session in server.sessions]
    assert fault.group_contains(ValueError, match="a fault of the runtime", depth=None)
    assert reasons == ["replica_failed"]
