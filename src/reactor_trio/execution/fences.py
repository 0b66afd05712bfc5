"""Waits for what a step has queued on a device."""

from __future__ import annotations

import trio

from reactor_trio.media import Chunk


async def wait_for_fences(chunk: Chunk) -> float:
    """Wait until devices have computed the chunk; returns the seconds that this took. No checkpoint without a wait.

    A step on a device is over when the device has computed it, not when the model's thread has queued it. Otherwise a
    pipeline whose author never synchronizes would be timed by its launches alone: paced too fast, shown late, and further
    behind with each step. The model's thread stays free meanwhile: a worker thread waits for the device.
    """
    if not (pending_fences := chunk.pending_fences):
        return 0.0
    began = trio.current_time()
    for made in pending_fences:
        await trio.to_thread.run_sync(made.synchronize)
    return trio.current_time() - began
