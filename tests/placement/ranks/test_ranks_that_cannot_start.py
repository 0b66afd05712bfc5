"""A rank whose process cannot be started: those that were started before are ended, whatever is cancelled."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.placement.ranks import rank_group


@pytest.mark.parametrize("cancelled", [False, True])
async def test_ranks_that_were_started_are_ended_when_another_cannot_be(monkeypatch, cancelled):
    done = []

    class Started:
        def __init__(self, *_given):
            if len(done) == 2:
                if cancelled:
                    starting.cancel()
                raise OSError(11, "Resource temporarily unavailable")
            done.append("started")

        def kill(self):
            done.append("killed")

        async def end(self):
            await trio.lowlevel.checkpoint()
            done.append("ended")

    monkeypatch.setattr(rank_group, "Subprocess", Started)
    with trio.CancelScope() as starting, pytest.raises(OSError, match="temporarily"):
        await rank_group.open_ranks(3)
    assert done == ["started"] * 2 + ["killed"] * 2 + ["ended"] * 2
