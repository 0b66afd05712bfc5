"""`examples/run_loop` in virtual time: the dish is stirred by events, kept between clients, paced by its compute time."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

SMALL = ("size=32", "scale=2", "rounds=2")


@pytest.fixture
def open_dish(example):
    manifest = example("run_loop", *SMALL)
    return lambda **options: open_server(manifest.model, config=manifest.config, **options)


async def test_the_reaction_goes_on_at_the_declared_rate(autojump_clock, open_dish):
    async with open_dish(step_cost=0.01) as server, server.connect() as client:
        frames = await client.take(7)
        assert frames[0].data.shape == (64, 64, 3)
        assert not np.array_equal(frames[0].data, frames[6].data)
        gaps = [after.pts - before.pts for before, after in itertools.pairwise(frames)]
        assert gaps == pytest.approx([1 / 30] * 6, abs=2e-6)  # the wire counts microseconds


async def test_a_slow_machine_is_shown_at_its_own_rate(autojump_clock, open_dish):
    async with open_dish(step_cost=0.25) as server, server.connect() as client:
        assert [frame.pts for frame in await client.take(4)] == [0.25, 0.5, 0.75, 1.0]


async def test_a_drop_is_in_the_next_picture_where_it_fell(autojump_clock, open_dish):
    async with open_dish(step_cost=0.25) as server, server.connect() as client:
        server.model.b[:] = 0
        (frame,) = await client.take(1)
        assert frame.command_id is None
        before = frame.data.astype(int).sum(axis=2)
        await client.command("drop", x=0.25, y=0.75, radius=0.1)
        frame = (await client.take(2))[-1]
        change = np.abs(frame.data.astype(int).sum(axis=2) - before)
        y, x = np.unravel_index(np.argmax(change), change.shape)
        assert (frame.command_id, abs(x - 16) <= 7, abs(y - 48) <= 7) == (1, True, True)


async def test_a_new_client_begins_with_the_default_settings_in_the_unchanged_dish(autojump_clock, open_dish):
    async with open_dish(step_cost=0.25) as server:
        async with server.connect() as client:
            message = await client.next_message()
            assert (message.type, message.data) == ("now", {"pattern": "coral", "speed": 1})
            await client.command("set_pattern", pattern="maze")
            assert (await client.next_message()).data == {"pattern": "maze", "speed": 1}
            await client.take(2)
            await client.close()
        await trio.sleep(1)  # the loop notices, and the step that ran ends
        dish, steps = server.model.b.copy(), server.model.steps
        await trio.sleep(60)
        assert np.array_equal(server.model.b, dish)
        async with server.connect() as client:
            commands = {command["name"]: command["schema"]["properties"] for command in client.schema["commands"]}
            shown = {name: commands[f"set_{name}"][name]["default"] for name in ("pattern", "speed")}
            assert (await client.next_message()).data == shown == {"pattern": "coral", "speed": 1}
            await client.take(1)
        assert server.model.steps > steps >= 2


async def test_the_covered_share_is_sent_every_thirty_pictures(autojump_clock, open_dish):
    async with open_dish(step_cost=0.02) as server, server.connect() as client:
        await client.take(31)
        assert (await client.next_message()).type == "now"
        message = await client.next_message()
        assert message.type == "covered"
        assert message.data["step"] == 30
        assert 0 <= message.data["share"] <= 1


async def test_a_pattern_that_does_not_exist_is_refused(autojump_clock, open_dish):
    async with open_dish() as server, server.connect() as client:
        with pytest.raises(CommandError, match=re.escape("$.pattern")):
            await client.command("set_pattern", pattern="stripes")
