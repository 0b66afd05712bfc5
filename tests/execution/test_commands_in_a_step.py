"""A command that comes while a step keeps the model's loop busy is seen by the next step; on real threads, in real time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trio
from tests.support.models import Picture
from trio.testing import wait_all_tasks_blocked

from reactor_trio import InputState, ReactorPipeline
from reactor_trio.concurrency import ClockHooks
from reactor_trio.testing import open_server

STEPS = 20


class State(InputState):
    level: int = 0


class Gated(ReactorPipeline):
    """Each step waits, in blocking code, for the test."""

    state: State
    output: Picture
    max_fps = 1000  # so that the next step begins at once

    def load(self, config: dict[str, Any]) -> None:
        self.began, self.gate, self.levels = threading.Semaphore(0), threading.Semaphore(0), []

    def inference(self) -> Any:
        while True:
            self.levels.append(self.state.level)
            self.began.release()
            self.gate.acquire()
            yield np.zeros((4, 6, 3), np.uint8)


async def test_a_command_during_a_step_is_seen_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_trio.testing.memory_server.HeldTime", lambda _cost: ClockHooks())
    async with open_server(Gated, thread=True) as server, server.connect() as client, trio.open_nursery() as nursery:
        model = server.model
        try:
            await trio.to_thread.run_sync(model.began.acquire)
            for level in range(1, STEPS):
                nursery.start_soon(lambda level=level: client.command("set_level", level=level))
                await wait_all_tasks_blocked()
                model.gate.release()
                await trio.to_thread.run_sync(model.began.acquire)
            assert model.levels == list(range(STEPS))
        finally:
            model.gate.release(STEPS)
        nursery.cancel_scope.cancel()
