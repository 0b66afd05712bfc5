"""`observe()`: all that a client receives, and the commands that it sends, as they pass; none of it is decoded or kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reactor_trio.client.client import Client
from reactor_trio.client.session_protocol import Commanded, Received, TextEvent


@contextmanager
def observe(client: Client, see: Callable[[TextEvent | Received | Commanded], None]) -> Iterator[None]:
    """Have `see` called with each packet, text and command of the block, at the instant at which it comes or goes.

    Frames that nobody iterates over are not kept for a later iterator, so that a client that only counts holds none. `see`
    must neither wait nor raise. A client has one observer: `record()` is one, and the second takes the first one's place.
    """
    for track in client.tracks:
        if track.direction == "out":
            client.frames(track.name)  # takes over what is kept, and lets go of it
    client._receiver.tap = see
    try:
        yield
    finally:
        client._receiver.tap = None
