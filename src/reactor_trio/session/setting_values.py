"""The values of a session's settings, and the values that each client knows, on the I/O loop.

A client knows the values that it received, and those that it set itself and that were acknowledged. If the session's values
differ, the client receives the difference (`reactor.state`): at once, but at most once each `INTERVAL`, and not while the
message before waits for its socket. So a client that reads slowly gets fewer messages, and always the newest values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import trio

from reactor_trio.interface.json_values import same_json
from reactor_trio.session.attachment import Attachment

#: seconds between two messages with values, at least
INTERVAL: Final = 0.1


@dataclass(slots=True, eq=False)
class _Client:
    """The values that one client knows.

    Attributes:
        state: "sending" while a message with values waits for the client's socket, "behind" if values have changed since
            that message was queued.
    """

    values: dict[str, bytes]
    state: Literal["idle", "sending", "behind"] = "idle"


class KnownValues:
    """The values of one session. No method but `run` waits.

    Args:
        defaults: the settings with their values before the model has made its state, as JSON; empty: left out.
        attachments: the session's clients.
    """

    def __init__(self, defaults: Mapping[str, bytes], attachments: Mapping[int, Attachment]) -> None:
        self._now = {name: text for name, text in defaults.items() if text}
        self._attachments = attachments
        self._clients: dict[int, _Client] = {}
        self._news = False
        self._next = -math.inf
        #: ends when what could not be sent at once may be sent
        self._sleep = trio.CancelScope()

    def welcome(self, number: int) -> dict[str, msgspec.Raw]:
        """All values, for the welcome of a client, which knows them from now on."""
        self._clients[number] = _Client(dict(self._now))
        return {name: msgspec.Raw(text) for name, text in self._now.items()}

    def forget(self, number: int) -> None:
        """Forget a client that has left."""
        self._clients.pop(number, None)

    def change(self, values: Mapping[str, bytes]) -> None:
        """Replace the values of these settings; an empty text stands for a value that is left out. Call `tell` after it."""
        for name, text in values.items():
            if text:
                self._now[name] = text
            else:
                self._now.pop(name, None)
            self._news = True

    def set_by(self, number: int, name: str, text: bytes) -> None:
        """Note that a client has set a setting itself, and receives the acknowledgement. Call `tell` after it."""
        client = self._clients.get(number)
        if client is not None and name in client.values:
            client.values[name] = text
            self._news = True

    def tell(self) -> None:
        """Send each client the values that it does not know, now or when `INTERVAL` has passed."""
        if not self._news:
            return
        if trio.current_time() < self._next:
            self._sleep.deadline = self._next
            return
        self._news = False
        sent = [self._tell(number, client) for number, client in self._clients.items()]
        if any(sent):
            self._next = trio.current_time() + INTERVAL

    async def run(self) -> None:
        """Task: send what could not be sent at once; cancelled when the session is over."""
        while True:
            with trio.move_on_at(self._next if self._news else math.inf) as self._sleep:
                await trio.sleep_forever()
            self.tell()

    def _tell(self, number: int, client: _Client) -> bool:
        attachment = self._attachments.get(number)
        if attachment is None or not attachment.watches:
            return False
        if client.state != "idle":
            client.state = "behind"
            return False
        known = client.values
        news = {name: text for name, text in self._now.items() if not same_json(known.get(name, b""), text)}
        if not news:
            return False

        def sent() -> None:
            self._news |= client.state == "behind"
            client.state = "idle"
            self.tell()

        client.state = "sending"
        known |= news
        attachment.say_values({name: msgspec.Raw(text) for name, text in news.items()}, sent)
        return True
