"""A link that drops anywhere in a conversation, again and again: the client that follows the protocol has each command
applied once and in order, and each message and answer once and in order.
"""

from __future__ import annotations

import json
from functools import partial

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis import strategies as st

from reactor_trio.testing import Link, open_server
from tests.support.resume_peers import World, returner

#: seconds after the step before; what is done then
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.003, 0.02, 0.1, 0.25, 1.0]),
        st.sampled_from(["add", "add", "add", "chatter", "refused", "drop", "half_open", "viewer"]),
    ),
    min_size=1,
    max_size=25,
)


async def play(script: list[tuple[float, str]], link_rate: float | None, **options: object) -> None:
    """Over links of `link_rate` bits a second and 10 ms, which break with what is under way."""
    async with open_server(World, step_cost=0.1, resume_window=30, **options) as server, returner(server) as peer:

        async def again(gap: float) -> None:
            await trio.sleep(gap)
            await peer.connect(None if link_rate is None else Link(bits_per_second=link_rate, delay=0.01))

        added = 0
        await peer.vanish()
        await again(0)
        for wait, what in script:
            await trio.sleep(wait)
            match what:
                case "add":
                    added += 1
                    await peer.command("add", value=added)
                case "chatter":
                    await peer.command("chatter", count=20, size=500)
                case "refused":
                    await peer.command("add", value="no number")
                case "drop":
                    await peer.transport.aclose(1006)
                    await again(5 * wait)
                case "half_open":
                    await again(0)
                case "viewer":
                    async with server.connect(role="viewer") as viewer:
                        await viewer.take(1)
        await trio.sleep(10)
        assert len(server.sessions) == 1
        assert server.model.added == list(range(1, added + 1)), "each command once, in order"
        assert [said["value"] for said in peer.of("added")] == list(range(1, added + 1))
        assert sorted(peer.answers) == list(range(1, len(peer.commands) + 1)), "each command has its one answer"
        assert [text["n"] for text in peer.texts] == list(range(2, 2 + len(peer.texts))), "each message once, in order"
        assert all(welcome["missed"] == 0 for welcome in peer.welcomes)
        chatters = sum(json.loads(text)["type"] == "chatter" for text in peer.commands)
        assert [said["value"] for said in peer.of("said")] == list(range(20)) * chatters


def run(function, *arguments, **options) -> None:
    trio.run(partial(function, *arguments, **options), clock=trio.testing.MockClock(autojump_threshold=0))


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(script=STEPS, link_rate=st.sampled_from([None, 200_000, 5_000_000]))
def test_a_link_that_drops_at_random_points_loses_and_doubles_nothing(script, link_rate):
    run(play, script, link_rate)


@pytest.mark.soak
@hypothesis.settings(max_examples=1500, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(script=STEPS, link_rate=st.sampled_from([None, 200_000, 5_000_000]))
def test_more_links_that_drop_at_random_points(script, link_rate):
    run(play, script, link_rate)


@pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])
async def test_a_link_that_drops_for_five_seconds_a_hundred_times(autojump_clock, placement):
    async with open_server(World, step_cost=0.1, resume_window=30, **placement) as server:
        async with returner(server, "raw") as peer:
            for number in range(100):
                await peer.command("add", value=number)
                await trio.sleep(0.137)
                await peer.command("add", value=1000 + number)
                await peer.transport.aclose(1006)
                await trio.sleep(5)
                await peer.connect()
            await trio.sleep(1)
            assert len(server.sessions) == 1
            wanted = [value for number in range(100) for value in (number, 1000 + number)]
            assert server.model.added == wanted
            assert [said["value"] for said in peer.of("added")] == wanted
            assert peer.answers == list(range(1, 201))
            assert [text["n"] for text in peer.texts] == list(range(2, 2 + len(peer.texts)))
            steps = [packet.step for _, packet in peer.frames]
            assert steps == sorted(steps), "one world, which goes on"
            assert [what for _, what in server.model.log].count("begun") == 1
            assert len(server.runtime.session_manager.away) == 0
