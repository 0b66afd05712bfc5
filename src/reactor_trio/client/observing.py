"""`observe()`: see each message that a client receives, and each command that it sends, without decoding or keeping any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reactor_trio.client.client import Client
from reactor_trio.client.receiver import Observer
from reactor_trio.client.session_view import internals


@contextmanager
def observe(client: Client, see: Observer) -> Iterator[None]:
    """Call `see` with each packet, text and command of the block, at the instant at which the client receives or sends it.

    Frames that come before the first iterator of a track are not kept, so a client that only counts frames holds none. `see`
    must neither wait nor raise. A client may have any number of observers; `record()` is one.
    """
    for track in client.tracks:
        if track.direction == "out":
            client.frames(track.name)  # takes the frames that are kept, and drops them
    with observing(client, see):
        yield


@contextmanager
def observing(client: Client, see: Observer) -> Iterator[None]:
    """As `observe`, but keep the frames that come before the first iterator of a track."""
    observers = internals(client).receiver.observers
    observers.append(see)
    try:
        yield
    finally:
        observers.remove(see)
