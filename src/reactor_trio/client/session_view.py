"""What a program may read of its session: how it goes, what the server said at its begin, its tracks and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import anyio

from reactor_trio.client.persistent_connection import PersistentConnection
from reactor_trio.client.receiver import Receiver
from reactor_trio.client.session_events import Ending
from reactor_trio.protocol import Late, TrackInfo, Welcome


class SessionView:
    """One session as it is now. A `Client` is one, with what a program can do."""

    def __init__(self, receiver: Receiver, connection: PersistentConnection) -> None:
        self._receiver = receiver
        self._connection = connection

    @property
    def welcome(self) -> Welcome:
        """The server's `reactor.welcome`, with which the session began."""
        welcome = self._receiver.protocol.welcome
        assert welcome is not None, "running() has not been entered"
        return welcome

    @property
    def ended(self) -> str | None:
        """Why the session ended (`"lost"` if the link broke); None while it goes on."""
        return self._receiver.ended

    @property
    def connected(self) -> bool:
        """Whether there is a link. False while the client reconnects, and when the session has ended."""
        return self._connection.connected

    @property
    def position(self) -> int | None:
        """This client's place in the server's queue, from 1; None when it does not wait."""
        return self._receiver.position

    @property
    def wait(self) -> float | None:
        """Seconds that this client still waits in the queue at most; None if it does not wait, or that is not known."""
        by = self._receiver.admitted_by
        return None if by is None else max(0.0, by - anyio.current_time())

    @property
    def ending(self) -> Ending | None:
        """The announced end: why (`"idle"`, `"expired"`, `"draining"`), in how many `seconds`; None if none is announced."""
        return self._receiver.ending

    @property
    def late(self) -> Late | None:
        """The model's code that takes long: `what`, as in `"step 7 has run"`, for how many `seconds`; None if none does."""
        return self._receiver.late

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.welcome.session_id

    @property
    def name(self) -> str:
        """The served model's name."""
        return self.welcome.name

    @property
    def role(self) -> str:
        """`"control"` or `"viewer"`."""
        return self.welcome.role

    @property
    def heartbeat(self) -> float:
        """Seconds between the server's pings."""
        return self.welcome.heartbeat

    @property
    def share_token(self) -> str | None:
        """The token with which other clients may watch this session (`token=...`, `role="viewer"`); None for a viewer."""
        return self.welcome.share_token

    @property
    def schema(self) -> dict[str, Any]:
        """The model's tracks, commands and messages, in the form of `GET /schema`."""
        return self.welcome.schema

    @property
    def schema_hash(self) -> str:
        """The hash of `schema`: two servers with the same hash take the same commands and send the same messages."""
        return self.welcome.schema_hash

    @property
    def state(self) -> Mapping[str, Any]:
        """The value of each setting by its field's name: a read-only, live mapping, also for a viewer.

        A value that `command` sets is here when `command` returns. A value that the model or a handler changes is here at
        most 0.1 s plus the network's delay later. Values without a JSON form (files, arrays) and values of more than 64 KiB
        of JSON are left out. While the link is lost nothing changes.
        """
        return MappingProxyType(self._receiver.protocol.state)

    @property
    def tracks(self) -> list[TrackInfo]:
        """The current description of each track. Sizes are None until the first frame is known."""
        return list(self._receiver.protocol.tracks.values())

    @property
    def last_command(self) -> int | None:
        """Id of the newest command that the model applied; None before the first.

        A frame that was made with this command, or with a later one, has a `command_id` that is at least as high.
        """
        return self._receiver.last_command


class Internals(NamedTuple):
    """What a client is made of: the session's state, and its link."""

    receiver: Receiver
    connection: PersistentConnection


def internals(client: SessionView) -> Internals:
    """Return what `client` is made of: for the package's own functions that take a Client, and for tests."""
    return Internals(client._receiver, client._connection)
