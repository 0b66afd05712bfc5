"""After a rewind the client tells the model what hands hold now, releases first. Exact, in virtual time."""

from __future__ import annotations

import itertools

import pytest
import trio

from reactor_trio.client import WorldChanged, observe
from reactor_trio.client.hands import Hands
from reactor_trio.client.session_events import Commanded
from reactor_trio.interface import InputState, ReactorPipeline, Saves, event
from reactor_trio.testing import open_server
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture


class Held(InputState):
    _keys: frozenset = frozenset()
    _left_x: float = 0.0
    _place: int = 0


class Runner(ReactorPipeline):
    """Its brightness grows by one a step while W is held, by ten while A is, and by the axis; that is its world."""

    output: Picture
    state: Held
    saves = Saves()
    fps = 10

    @event
    def jump(self) -> None:
        pass

    @event
    def key_a(self, down: bool) -> None:
        self.hold("a", down)

    @event
    def key_w(self, down: bool) -> None:
        self.hold("w", down)

    @event
    def gamepad_axes(self, left_x: float = 0.0, left_y: float = 0.0) -> None:
        self.state._left_x = left_x

    def hold(self, key: str, down: bool) -> None:
        self.state._keys = self.state._keys | {key} if down else self.state._keys - {key}

    def inference(self):
        while True:
            self.state._place += ("w" in self.state._keys) + 10 * ("a" in self.state._keys) + int(self.state._left_x)
            yield picture(self.state._place)


@in_all_placements
async def test_a_key_that_the_moment_holds_and_nobody_presses_any_more_is_released(autojump_clock, placement):
    async with open_server(Runner, **placement) as server, server.connect() as client:
        await client.command("key_w", down=True)
        await client.take(8)
        await client.command("key_w", down=False)
        await client.take_after()
        await client.worlds.rewind(step=5)
        still = shown([await client.take_after(), *await client.take(5)])
        assert len(set(still[1:])) == 1


async def test_a_key_that_is_held_now_and_not_in_the_moment_is_pressed(autojump_clock):
    async with open_server(Runner) as server, server.connect() as client:
        await client.take(8)
        await client.command("key_w", down=True)
        await client.command("gamepad_axes", left_x=2.0)
        await client.take_after()
        await client.worlds.rewind(step=3)
        await client.take_after()
        runs = shown(await client.take(4))
        assert [after - before for before, after in itertools.pairwise(runs)] == [3, 3, 3]


async def test_what_is_sent_and_in_which_order(autojump_clock):
    async with open_server(Runner) as server, server.connect() as client:
        await client.take(8)
        await client.command("key_a", down=True)
        await client.command("jump")
        seen = []
        with observe(client, lambda event: seen.append(event) if isinstance(event, (Commanded, WorldChanged)) else None):
            await client.worlds.rewind(step=3)
        assert (seen[0].name, type(seen[1])) == ("reactor.rewind", WorldChanged)
        assert [(each.name, each.arguments) for each in seen[2:]] == [
            ("key_w", {"down": False}), ("gamepad_axes", {"left_x": 0, "left_y": 0}), ("key_a", {"down": True}),
        ]  # fmt: skip
        await client.worlds.undo()  # the answers of those before it came
        assert client.last_command == seen[-1].id + 1


async def test_a_viewer_sends_nothing(autojump_clock):
    async with open_server(Runner) as server, server.connect() as client, server.connect(role="viewer") as viewer:
        await client.take(4)
        seen = []
        with observe(viewer, lambda event: seen.append(event) if isinstance(event, (Commanded, WorldChanged)) else None):
            await client.worlds.rewind(step=1)
            await trio.sleep(1)
        assert [type(each) for each in seen] == [WorldChanged]
        assert viewer.ended is None


@pytest.mark.parametrize(
    ("name", "properties", "required", "released"),
    [
        ("brush", {"down": {"type": "boolean"}, "size": {"type": "number"}}, ["down", "size"], None),
        ("brush", {"down": {"type": "boolean"}, "size": {"type": "number"}}, ["down"], {"down": False}),
        ("gamepad_a", {"value": {"type": "number"}}, ["value"], {"value": 0}),
        ("gamepad_b", {}, [], None),
        ("toggle", {"on": {"type": "boolean"}}, [], None),
        ("down", {"down": {"type": "number"}}, [], None),
    ],
)
def test_only_what_is_held_can_be_released(name, properties, required, released):
    hands = Hands()
    commands = [{"name": name, "schema": {"properties": properties, "required": required}}, {"name": "jump"}]
    assert hands.now(commands) == ([] if released is None else [(name, released)])
    hands.sent(name, {"down": True, "size": 2})
    assert hands.now(commands) == [(name, {"down": True, "size": 2})]
