"""`BlockPacer`: the `OutputPacer` of a blocking model, which measures the time between two pushes."""

from __future__ import annotations

from typing import Any

import trio

from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.media import Chunk, Origin, black_chunk
from reactor_trio.pacing import BlockCadence


class BlockPacer(OutputPacer):
    """Paces blocks, whose rate is that of their pushes: its cadence is a `BlockCadence`."""

    #: the model computes its next block while one is shown
    _blocks = 2
    _cadence: BlockCadence
    _unwatched_since = 0.0

    async def push(self, chunk: Chunk, origin: Origin) -> None:
        """Queue a block, whose push sets the rate. Waits while two blocks are queued."""
        self._channel.take()
        interval, now = self._cadence.interval, trio.current_time()
        self._cadence.pushed(now, chunk.length, self._room.waiting(now))
        if self._cadence.interval != interval and not self.closed:
            self._retime(self._cadence.interval)
        self.accept(chunk, None)
        await self.queue(chunk, origin, now, "emit")

    async def push_black(self, origin: Origin) -> None:
        """Queue one black frame of the last size behind what is queued. The rate does not change."""
        chunk = black_chunk(self._declaration.tracks, self._sizes)
        self.accept(chunk, None, of_model=False)
        await self.queue(chunk, origin, trio.current_time(), "emit")

    def monitor(self, enabled: bool) -> None:
        """Say whether the time that passes is the model's work."""
        if enabled:
            self._cadence.enable(trio.current_time())
        else:
            self._cadence.disable()

    def watched(self, message: Any) -> None:
        """Leave the time without a viewer out of the rate: the model could not push meanwhile."""
        if message.watched:
            self._cadence.stood_still(self._unwatched_since, trio.current_time())
        else:
            self._unwatched_since = trio.current_time()
        super().watched(message)
