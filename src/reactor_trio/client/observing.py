"""`observe()`: see each message that a client receives, and each command that it sends, without decoding or keeping any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reactor_trio.client.client import Client
from reactor_trio.client.receiver import ignore
from reactor_trio.client.session_protocol import Commanded, Received, TextEvent


@contextmanager
def observe(client: Client, see: Callable[[TextEvent | Received | Commanded], None]) -> Iterator[None]:
    """Call `see` with each packet, text and command of the block, at the instant at which the client receives or sends it.

    Frames that come before the first iterator of a track are not kept, so a client that only counts frames holds none. `see`
    must neither wait nor raise. A client has one observer at a time: `record()` is one, and a second replaces the first.
    """
    for track in client.tracks:
        if track.direction == "out":
            client.frames(track.name)  # takes the frames that are kept, and drops them
    client._receiver.tap = see
    try:
        yield
    finally:
        client._receiver.tap = ignore
