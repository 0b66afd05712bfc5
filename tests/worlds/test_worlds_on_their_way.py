"""How many worlds of a session are in memory at once, whatever its client asks for while a step computes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import trio

from reactor_trio.interface import Saves
from reactor_trio.testing import open_server
from tests.support.behaviour_models import raw_session
from tests.worlds.test_rewind import Counter
from tests.worlds.test_saving_worlds import with_store

LARGE = 8 << 20
LONG = 4.0


class Large(Counter):
    """A world of 8 MiB that changes with each step."""

    saves = Saves("water")
    fps = 1

    def load(self, config):
        super().load(config)
        self.water = np.zeros(LARGE, np.uint8)

    def inference(self):
        for step in super().inference():
            self.water[:] += 1
            yield step


async def test_one_restored_world_waits_for_a_step_that_computes_and_the_others_on_the_disk(autojump_clock, folder, way):
    settings = with_store(folder, way, ring=1024)  # no moment is kept
    async with open_server(Large, settings=settings, step_cost=LONG) as server, raw_session(server) as peer:
        await trio.sleep(LONG / 2)
        await peer.command("reactor.save", 1)
        world = (await peer.answer())["data"]["reply"]["world"]["id"]
        await trio.sleep(LONG / 10)  # the next step computes
        tracemalloc.start()
        try:
            for number in range(2, 12):
                await peer.command("reactor.restore", number, world=world)
            await trio.sleep(LONG / 2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        copies = 2.5 if way == "thread" else 3.5  # a process has its own, and here both are in this one
        assert LARGE <= peak < copies * LARGE
        answers = [await peer.answer() for _ in range(10)]
        assert [(answer["type"], answer["id"]) for answer in answers] == [("reactor.ack", n) for n in range(2, 12)]


async def test_a_restore_behind_one_that_is_refused_does_not_wait_for_ever(autojump_clock, folder, way):
    async with open_server(Large, settings=with_store(folder, way)) as server, raw_session(server) as peer:
        await trio.sleep(3)
        await peer.command("reactor.save", 1)
        world = (await peer.answer())["data"]["reply"]["world"]["id"]
        await trio.sleep(3)
        await peer.command("reactor.restore", 2, world="gone")
        await peer.command("reactor.restore", 3, world=world)
        await peer.command("reactor.fork", 4, world=world)
        await peer.command("reactor.restore", 5, world=world)
        answers = [await peer.answer() for _ in range(4)]
        assert [answer["type"] for answer in answers] == [
            "reactor.error", "reactor.ack", "reactor.ack", "reactor.ack"
        ]  # fmt: skip
