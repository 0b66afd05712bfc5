"""The values of a session's settings, and what each client takes them to be, on the I/O loop.

For each client this is what it was told, and what it has set itself and was acknowledged. What differs from that is told
to it (`reactor.state`): at once, but not more often than each `INTERVAL`, and not while the message before waits for its
socket. So a client that reads slowly is told less often, and always the newest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.interface.json_values import same_json
from reactor_trio.session.attachment import Attachment

#: seconds between two messages with values, at least
INTERVAL: Final = 0.1


@dataclass(slots=True, eq=False)
class _Client:
    """What a client takes the values to be.

    `busy`: a message that tells it some still waits for its socket; `behind`: and since then there are others.
    """

    values: dict[str, bytes]
    busy: bool = False
    behind: bool = False


class KnownValues:
    """The values of one session. No method but `run` waits.

    Args:
        defaults: the settings with the values that they have until the model says otherwise, as JSON; empty: left out.
        attachments: the session's clients.
    """

    def __init__(self, defaults: Mapping[str, bytes], attachments: Mapping[int, Attachment]) -> None:
        self._now = {name: text for name, text in defaults.items() if text}
        self._attachments = attachments
        self._clients: dict[int, _Client] = {}
        self._news = False
        self._next = -math.inf
        self._timed = False
        self._wakeup = RepeatedEvent()

    def welcome(self, number: int) -> dict[str, msgspec.Raw]:
        """All values, for the welcome of a client: it knows them from now on."""
        self._clients[number] = _Client(dict(self._now))
        return {name: msgspec.Raw(text) for name, text in self._now.items()}

    def forget(self, number: int) -> None:
        """A client has left."""
        self._clients.pop(number, None)

    def change(self, values: Mapping[str, bytes]) -> None:
        """These settings have other values now; empty: a value that is left out. To be followed by `tell`."""
        for name, text in values.items():
            if text:
                self._now[name] = text
            else:
                self._now.pop(name, None)
            self._news = True

    def set_by(self, number: int, name: str, text: bytes) -> None:
        """A client has set a setting to what it sent, and is told that it was applied. To be followed by `tell`."""
        client = self._clients.get(number)
        if client is not None and name in client.values:
            client.values[name] = text
            self._news = True

    def tell(self) -> None:
        """Tell each client what it does not know, now or when it is time."""
        if not self._news:
            return
        if trio.current_time() < self._next:
            if not self._timed:
                self._wakeup.set()
            return
        self._news = False
        told = [self._tell(number, client) for number, client in self._clients.items()]
        if any(told):
            self._next = trio.current_time() + INTERVAL

    async def run(self) -> None:
        """Task: tell what could not be told at once; cancelled when the session is over."""
        while True:
            if not self._news:
                await self._wakeup.wait()
            elif trio.current_time() < self._next:
                self._timed = True
                await self._wakeup.wait(self._next)
                self._timed = False
            else:
                self.tell()

    def _tell(self, number: int, client: _Client) -> bool:
        attachment = self._attachments.get(number)
        if attachment is None or not attachment.watches:
            return False
        if client.busy:
            client.behind = True
            return False
        known = client.values
        news = {name: text for name, text in self._now.items() if not same_json(known.get(name, b""), text)}
        if not news:
            return False

        def sent() -> None:
            client.busy = False
            self._news |= client.behind
            client.behind = False
            self.tell()

        client.busy = True
        known |= news
        attachment.say_values({name: msgspec.Raw(text) for name, text in news.items()}, sent)
        return True
