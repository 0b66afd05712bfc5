"""A world that counts what it is told, for tests of clients whose link is lost: what was applied can be heard and seen."""

from __future__ import annotations

import numpy as np

from reactor_trio.interface import InputState, ModelMessage, Output, ReactorPipeline, Video, event


class Total(InputState):
    total: int = 0


class Picture(Output):
    main_video: Video


class Counted(ModelMessage):
    count: int
    number: int


class Adder(ReactorPipeline):
    """Its picture is grey, of `40 + 30 * total`."""

    state: Total
    fps = 20

    @event
    async def add(self, number: int = 0) -> int:
        self.state.total += 1
        await self.send(Counted(count=self.state.total, number=number))
        return self.state.total

    def inference(self):
        while True:
            yield Picture(main_video=np.full((64, 64, 3), (40 + 30 * self.state.total) % 256, np.uint8))
