"""`reactor.worlds`: what a session may go back to. Exact, in virtual time."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server
from tests.support.behaviour_models import in_all_placements
from tests.worlds.test_pictures import Slow
from tests.worlds.test_rewind import Counter, Forgetful, Locked

RING = 512 * 1024 * 1024


@in_all_placements
async def test_the_moments_of_the_past_and_ahead_are_listed_with_their_pictures(autojump_clock, placement):
    async with open_server(Slow, **placement) as server, server.connect() as client:
        await client.take(6)
        await client.playback.pause()
        await trio.sleep(1)
        listed = await client.worlds.list()
        steps = [moment.step for moment in listed.moments]
        assert steps == list(range(len(steps)))
        assert len(steps) >= 6
        assert [moment.age for moment in listed.moments] == pytest.approx([0.25 * (step + 1) for step in steps])
        assert [moment.picture for moment in listed.moments[:6]] == [True] * 6
        assert all(moment.bytes > 0 for moment in listed.moments)
        assert sum(moment.bytes for moment in listed.moments) < listed.bytes < listed.most == RING
        assert (listed.undo, listed.worlds) == (None, ())
        await client.worlds.rewind(step=2)
        rewound = await client.worlds.list()
        assert rewound.moments == listed.moments
        assert rewound.undo is not None
        assert rewound.undo.step == steps[-1]
        await client.playback.step()
        await client.take_after()
        assert [moment.step for moment in (await client.worlds.list()).moments] == [0, 1, 2, steps[-1] + 1]
        await trio.sleep(60)
        assert (await client.worlds.list()).undo is None


async def test_a_list_changes_nothing(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        assert (await client.worlds.list()).moments == ()
        frames = await client.take(5)
        await client.worlds.list()
        frames += await client.take(5)
        assert [frame.seq for frame in frames] == list(range(10))


async def test_who_may_list(autojump_clock):
    async with open_server(Locked) as server, server.connect() as client, server.connect(role="viewer") as viewer:
        await client.take(2)
        assert (await client.worlds.list()).moments
        with pytest.raises(CommandError) as raised:
            await viewer.worlds.list()
        assert raised.value.code == "not_allowed"
    async with open_server(Forgetful) as server, server.connect() as client:
        with pytest.raises(CommandError, match="reactor\\.worlds: this model saves no worlds") as raised:
            await client.worlds.list()
        assert raised.value.code == "not_saveable"
