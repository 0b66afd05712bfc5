"""A channel joins the two sides of one session. A `LocalEnd` is in the same process as its peer, a `SocketEnd` is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

#: which function takes a message of this type; the functions must not raise
Handlers = Mapping[type, Callable[[Any], object]]


class ChannelEnd(Protocol):
    """One end of a session's channel.

    Attributes:
        asleep: set by the loop of this end while nothing would make it look for messages.
    """

    asleep: bool

    def connect(self, handlers: Handlers) -> None:
        """Name the functions that take the messages of this end, before the first message can come."""

    def send(self, message: Any) -> None:
        """Send a message to the other end. It waits for nothing; an end that is closed drops it."""

    def take(self) -> None:
        """Have the messages taken that have come, in their order."""

    def close(self) -> None:
        """Forget the handlers, and drop what has come and what still comes."""
