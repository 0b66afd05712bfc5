"""`examples/flight`: the flight, its crash, a landscape of one's own, and what is left for the next client."""

from __future__ import annotations

import numpy as np
import pytest
import simplejpeg

from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server

SMALL = ["width=64", "height=36", "map=64", "batch=2"]


@pytest.fixture
def flight(example):
    return example("flight", *SMALL)


def jpeg(value: int) -> bytes:
    return simplejpeg.encode_jpeg(np.full((32, 48, 3), value, np.uint8))


def opened(flight):
    return open_server(flight.model, config=flight.config, step_cost=2 / 30)


async def test_keys_steer_and_the_picture_follows(autojump_clock, flight):
    async with opened(flight) as server, server.connect() as client:
        frames = await client.take(2)
        assert frames[0].data.shape == (36, 64, 3)
        world = server.model.world
        straight = world.heading
        await client.command("key_left", down=True)
        await client.take(10)
        turned = world.heading
        assert turned < straight
        await client.command("key_left", down=False)
        await client.take_after()
        after = world.heading
        await client.take(6)
        assert world.heading == after


async def test_paused_the_world_stands_still(autojump_clock, flight):
    async with opened(flight) as server, server.connect() as client:
        await client.take(2)
        await client.command("set_paused", paused=True)
        place = server.model.world.place.copy()
        with pytest.raises(Exception, match="no frame"):
            await client.take(60, within=3)
        assert np.array_equal(server.model.world.place, place)
        await client.command("set_paused", paused=False)
        await client.take_after()


async def test_a_crash_begins_again(autojump_clock, flight):
    async with opened(flight) as server, server.connect() as client:
        assert (await client.next_message()).type == "help"
        await client.command("key_down", down=True)
        crashed = await client.next_message()
        assert (crashed.type, crashed.data) == ("crashed", {"flights": 1})
        assert server.model.world.altitude > 80
        await client.take(4)


async def test_a_landscape_of_ones_own(autojump_clock, flight):
    async with opened(flight) as server:
        async with server.connect() as client:
            image = await client.upload(jpeg(200), name="hills.jpg", mime_type="image/jpeg")
            assert await client.command("load_map", image=image) == {"width": 48, "height": 32}
            assert server.model.world.colours.min() > 150
            broken = await client.upload(b"no jpeg", name="a.jpg", mime_type="image/jpeg")
            with pytest.raises(CommandError, match="is no JPEG that can be read") as refused:
                await client.command("load_map", image=broken)
            assert refused.value.code == "not_a_picture"
            text = await client.upload(b"x", name="a.txt", mime_type="text/plain")
            with pytest.raises(CommandError, match="Expected a file of image/jpeg"):
                await client.command("load_map", image=text)
            (command,) = [c for c in client.schema["commands"] if c["name"] == "load_map"]
            assert set(command["reply"]["properties"]) == {"width", "height"}
            await client.command("key_up", down=True)
        async with server.connect() as client:
            await client.take(2)
            assert server.model.world.heading == 0.7
            assert client.server.model.state._climb == 0


def test_the_world_alone(flight):
    flight.model  # noqa: B018 - imports the example's modules
    from world import Action, Crash, World

    world = World(64, 36, 64, 3)
    assert world.generate(Action()).shape == (3, 36, 64, 3)
    with pytest.raises(Crash):
        for _ in range(100):
            world.generate(Action(climb=-1))
