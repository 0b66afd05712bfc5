"""A channel joins the two sides of one session. A `LocalEnd` is in the same process as its peer, a `SocketEnd` is not.

An end is open until `close`. A session may be over on one side while the other still speaks, so a closed end takes every
call and drops every message. No frame comes that late: the model's side has ended its output before, and counted it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

#: which function takes a message of this type; the functions must not raise
Handlers = Mapping[type, Callable[[Any], object]]


class DroppedMessages(deque[Any]):
    """The queue of an end that is closed: it keeps nothing.

    Attributes:
        messages: how many it was given.
    """

    messages = 0

    def append(self, _message: Any) -> None:
        """Drop a message."""
        self.messages += 1


class ChannelEnd(ABC):
    """One end of a session's channel.

    Attributes:
        asleep: set by the loop of this end while nothing would make it look for messages.
    """

    asleep: bool
    _handlers: Handlers = MappingProxyType({})
    _dropped: DroppedMessages

    @property
    def dropped(self) -> int:
        """How many messages this end has dropped, since it is closed: sent here, come here, or waiting here at `close`."""
        return self._dropped.messages

    def connect(self, handlers: Handlers) -> None:
        """Name the functions that take the messages of this end, before the first message can come."""
        self._handlers = handlers

    @abstractmethod
    def send(self, message: Any) -> None:
        """Send a message to the other end. It waits for nothing."""

    @abstractmethod
    def take(self) -> None:
        """Have the messages taken that have come, in their order."""

    @abstractmethod
    def deliver(self, message: Any) -> None:
        """Have a message taken at once, behind those that have come. Raises KeyError if no function takes its type."""

    @abstractmethod
    def close(self) -> None:
        """Close this end: forget the functions, and drop what waits here and every later message. May be called again."""
