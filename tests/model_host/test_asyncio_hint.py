"""Author code that calls asyncio is told Trio's twin, wherever it stands."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from reactor_trio.errors import CommandError
from reactor_trio.interface import Output, ReactorPipeline, Video, event
from reactor_trio.model_host import AsyncioUsedError, with_twin
from reactor_trio.testing import open_session

CALLS: dict[str, tuple[Any, str]] = {
    "sleep": (lambda: asyncio.sleep(1), "asyncio.sleep does not work here.*use trio.sleep"),
    "sleep0": (lambda: asyncio.sleep(0), "use trio.sleep"),
    "to_thread": (lambda: asyncio.to_thread(print), "use trio.to_thread.run_sync"),
    "event": (lambda: asyncio.Event().wait(), "use trio.Event"),
    "wait_for": (lambda: asyncio.wait_for(asyncio.sleep(0), 1), "use trio.fail_after"),
}


class Picture(Output):
    picture: Video


class Model(ReactorPipeline):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.call = config["call"]

    @event
    async def handle(self) -> None:
        await CALLS[self.call][0]()

    async def inference(self) -> Any:
        yield np.zeros((2, 2, 3), np.uint8)
        if self.call != "handler":
            await CALLS[self.call][0]()
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("call", CALLS)
async def test_in_inference(autojump_clock: object, call: str) -> None:
    async with open_session(Model, config={"call": call}) as client:
        with pytest.raises(AsyncioUsedError, match=CALLS[call][1]):
            await client.take(5)


async def test_in_a_handler_the_session_goes_on(autojump_clock: object) -> None:
    class Handling(Model):
        async def inference(self) -> Any:
            while True:
                yield np.zeros((2, 2, 3), np.uint8)

    async with open_session(Handling, config={"call": "sleep"}, debug=True) as client:
        with pytest.raises(CommandError, match=r"use trio\.sleep"):
            await client.command("handle")
        await client.take(2)


def test_other_errors_are_left_as_they_are() -> None:
    error = RuntimeError("CUDA error")
    assert with_twin(error) is error
