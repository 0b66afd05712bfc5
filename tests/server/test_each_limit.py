"""Settings that bound a time or a number and have no test of both sides elsewhere: just within, and just beyond."""

from __future__ import annotations

import time

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError, ConnectionRefused
from reactor_trio.interface import (
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    Video,
    VideoModel,
    event,
    get_ctx,
    model,
)
from reactor_trio.server.moderation_hook import UNCHECKED
from reactor_trio.testing import open_server, open_session


class Picture(Output):
    main: Video


class Words(InputState):
    prompt: str = InputField(default="", moderate=True)


class Painter(ReactorPipeline):
    state: Words
    output: Picture

    @event
    def mark(self, number: int) -> int:
        return number

    def inference(self):
        while True:
            yield Picture(main=np.zeros((2, 2, 3), np.uint8))


@model(name="lingering")
class Lingering(VideoModel):
    """Computes for `config["seconds"]` after its first picture, and asks for nothing meanwhile."""

    def __init__(self, config):
        self.seconds = config["seconds"]

    def start_session(self):
        get_ctx().emit_block(np.zeros((2, 2, 3), np.uint8))
        time.sleep(self.seconds)


@pytest.mark.parametrize(("wait", "refused"), [(1.9, False), (2.1, True)])
async def test_a_check_of_text_may_take_its_time(autojump_clock, wait, refused):
    async def slowly(text, *, command, field):
        await trio.sleep(wait)

    async with open_session(Painter, moderate=slowly, moderate_timeout=2, step_cost=0.1) as client:
        if refused:
            with pytest.raises(CommandError, match=UNCHECKED):
                await client.command("set_prompt", prompt="a dog")
        else:
            await client.command("set_prompt", prompt="a dog")
        assert client.server.model.state.prompt == ("" if refused else "a dog")


@pytest.mark.parametrize(("seconds", "stuck"), [(5.9, False), (6.1, True)])
async def test_a_step_may_outlive_its_session_for_a_while(autojump_clock, caplog, seconds, stuck):
    async with open_server(Lingering, config={"seconds": seconds}, stuck_after=5.0) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep_until(1)
            await client.vanish()
        await trio.sleep_until(6.05)
        assert server.http("/health").status == (503 if stuck else 200)
        await server.sessions[0].ended.wait()
        assert server.http("/health").status == 200
        assert ("still computes 5 s after the session ended" in caplog.text) == stuck


@pytest.mark.parametrize(("seconds", "unwound", "ended"), [(2.9, True, 2.9), (3.1, False, 3.0)])
async def test_a_drain_waits_its_grace_for_the_last_step(autojump_clock, seconds, unwound, ended):
    async with open_server(Lingering, config={"seconds": seconds}, drain_grace=2) as server, server.connect() as client:
        await client.take(1)
        await trio.sleep_until(1)
        await server.drain()
        assert (client.ended, trio.current_time()) == ("draining", ended)
        assert server.sessions[0].ended.is_set() == unwound
        await server.sessions[0].ended.wait()


async def test_the_queue_holds_exactly_its_number(autojump_clock):
    async with open_server(Painter, queue=2, step_cost=0.1) as server, server.connect() as first:
        await first.take(1)
        places = []
        async with trio.open_nursery() as nursery:

            async def wait_for_a_place(number):
                async with server.connect() as client:
                    places.append(number)
                    await client.take(1)

            for number in range(2):
                nursery.start_soon(wait_for_a_place, number)
                await trio.testing.wait_all_tasks_blocked()
            assert server.runtime.waiting_room.admission.waiting == 2
            with pytest.raises(ConnectionRefused, match="full") as refused:
                async with server.connect():
                    pass
            assert refused.value.status == 503
            await first.close()
        assert places == [0, 1]


@pytest.mark.parametrize("allowed", [3, 4])
async def test_commands_of_a_second_are_counted_exactly(autojump_clock, allowed):
    async with open_session(Painter, limits={"commands_per_second": 3}, step_cost=0.01) as client:
        for number in range(3):
            assert await client.command("mark", number=number) == number
        if allowed == 4:
            await trio.sleep(1)  # at three a second they are all back
            assert await client.command("mark", number=4) == 4
        else:
            with pytest.raises(CommandError, match="more than 3 commands a second"):
                await client.command("mark", number=4)
                await client.command("mark", number=5)
