"""`send_newest`: a memory channel whose sender never waits and whose oldest item makes room."""

from __future__ import annotations

from typing import TypeVar

import trio

T = TypeVar("T")


def send_newest(send: trio.MemorySendChannel[T], receive: trio.MemoryReceiveChannel[T], item: T) -> T | None:
    """Send an item. If the channel is full, take its oldest item out first, and return it: the caller counts it as dropped.

    Raises trio.BrokenResourceError, and trio.ClosedResourceError, as `send_nowait` does.
    """
    try:
        send.send_nowait(item)
    except trio.WouldBlock:
        oldest = receive.receive_nowait()
        send.send_nowait(item)
        return oldest
    return None
