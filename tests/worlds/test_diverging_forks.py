"""After a fork each of the two sessions goes its own way and changes nothing of the other (row 18 of worlds.md)."""

from __future__ import annotations

import random
from dataclasses import field
from typing import Any

import numpy as np
import pytest

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.interface import InputState, ReactorPipeline, Saves, event
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture


class Bed(InputState):
    speed: int = 0
    _rows: Any = None
    _planted: list[int] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)


class Garden(ReactorPipeline):
    """Has an array, a list and a dict, all of which its steps and commands change in place."""

    state: Bed
    output: Picture
    saves = Saves()
    fps = 10
    max_sessions = 2

    @event
    def plant(self, at: int) -> None:
        state = self.state
        if state._rows is None:
            state._rows = np.zeros(5, np.int64)
        state._rows[at] += len(state._planted) + 1
        state._planted.append(at)
        state._counts["planted"] = state._counts.get("planted", 0) + at

    def grow(self) -> Any:
        return picture(grown(self.state))

    def inference(self):
        while True:
            yield self.grow()


def grown(state: Any) -> int:
    """One step of such a world; returns what is shown of it."""
    if state._rows is not None:
        state._rows += state.speed
        state._counts["steps"] = state._counts.get("steps", 0) + state.speed
    total = 0 if state._rows is None else int(state._rows @ np.arange(1, 6))
    return (total + sum(state._counts.values()) + 3 * len(state._planted)) % 256


class Batched(Garden):
    inference = None  # type: ignore[assignment]

    def batch_inference(self, models):
        return [model.grow() for model in models]


class Alone:
    """The same world, in no session."""

    def __init__(self) -> None:
        self.state = Bed()

    def apply(self, name: str, value: int) -> int:
        if name == "plant":
            Garden.plant(self, at=value)  # type: ignore[arg-type]
        else:
            self.state.speed = value
        return grown(self.state)


@pytest.mark.parametrize("model", [Garden, Batched])
async def test_fifty_commands_of_each_change_nothing_in_the_other(autojump_clock, way, model):
    chance = random.Random(3)
    alone = [Alone(), Alone()]

    def drawn() -> tuple[str, int]:
        name = chance.choice(["plant", "plant", "set_speed"])
        return name, chance.randrange(1, 5)

    async def play(client: Any, untouched: Alone, name: str, value: int) -> None:
        await client.command(name, **{"at" if name == "plant" else "speed": value})
        await client.playback.step()
        assert shown([await client.take_after()]) == [untouched.apply(name, value)]

    async with open_server(model, settings=ServerSettings(isolation=way)) as server, server.connect() as parent:
        await parent.playback.pause()
        for _ in range(10):
            name, value = drawn()
            await play(parent, alone[0], name, value)
            alone[1].apply(name, value)
        for each in alone:
            each.apply("set_speed", 0)  # so that the child makes no step of its own before its first command
        await parent.command("set_speed", speed=0)
        fork = await parent.worlds.fork()
        async with server.connect(fork=fork.token) as child:
            await child.playback.pause()
            for _ in range(50):
                for client, untouched in ((parent, alone[0]), (child, alone[1])):
                    await play(client, untouched, *drawn())
    assert alone[0].state._planted != alone[1].state._planted
