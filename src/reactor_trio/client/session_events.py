"""What a client learns from its server: the events that `SessionProtocol` makes of texts and packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.protocol import Admitted, Cadence, Late, Packet, TrackInfo, Welcome, WorldMoment


class Queued(msgspec.Struct, frozen=True):
    """The server has no room yet; this client is at `position` in the queue, from 1, of `total`.

    Attributes:
        reason: why the server has no room, if the reason is not other clients.
        wait, heartbeat: seconds until this client gets its session at the latest, and between two pings; None: not known.
    """

    position: int
    total: int
    reason: str = ""
    wait: float | None = None
    heartbeat: float | None = None


class SessionResumed(msgspec.Struct, frozen=True):
    """The session continues over another connection.

    Attributes:
        received: how many of this client's commands the server has read, over all connections.
        missed: how many messages the server sent meanwhile and has already forgotten. It sends the later ones again.
        changed: tracks whose description has changed.
        values: the values of settings that have changed.
        paused: whether the session is paused, if that has changed; else None.
    """

    received: int
    missed: int = 0
    changed: tuple[TrackInfo, ...] = ()
    values: Mapping[str, Any] = {}
    paused: bool | None = None


class CommandAnswered(msgspec.Struct, frozen=True):
    """The server applied command `id` (`error` is None) or refused it.

    Attributes:
        step: the first model step that sees the command, if it was applied.
    """

    id: int
    reply: Any = None
    error: CommandError | None = None
    step: int | None = None


class Commanded(msgspec.Struct, frozen=True):
    """This client sends command `id`."""

    id: int
    name: str
    arguments: Mapping[str, Any]


class TrackChanged(msgspec.Struct, frozen=True):
    """A track has another size or codec from its next packet on, or is new."""

    track: TrackInfo


class StateChanged(msgspec.Struct, frozen=True):
    """The server sent the new `values` of settings. `SessionProtocol.state` already has them."""

    values: Mapping[str, Any]


class TransportChanged(msgspec.Struct, frozen=True):
    """The session was paused, or goes on. `SessionProtocol.paused` already says so."""

    paused: bool


class WorldChanged(msgspec.Struct, frozen=True):
    """The world is that of an earlier moment from now on.

    Attributes:
        step: the first step that goes on from it.
        to: the moment.
        why: what has brought it back.
        from_age: age of the world at the step that was on screen; None if the server does not say it.
    """

    step: int
    to: WorldMoment
    why: str
    from_age: float | None = msgspec.field(name="from", default=None)


class WorldSaved(msgspec.Struct, frozen=True):
    """The saving of a world has ended: it is in the store, or `code` and `message` say why not."""

    world: str
    code: str | None = None
    message: str = ""


class KeyframeWanted(msgspec.Struct, frozen=True):
    """The server needs a keyframe of an input track to continue decoding it."""

    track: int


class Ending(msgspec.Struct, frozen=True):
    """The session will end in `seconds`, for `reason`. With `seconds` None the server has cancelled that end."""

    reason: str
    seconds: float | None


class Bye(msgspec.Struct, frozen=True):
    """The server ends the session, or only this connection (`too_slow`); `code` says why it refused this client."""

    reason: str
    message: str = ""
    code: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message of the model, or an error that belongs to no command (type `reactor.error`); `n` is its number."""

    type: str
    data: Any
    n: int | None = None


class Received(msgspec.Struct, frozen=True):
    """A packet, the description of its track at that time, and its time of arrival."""

    packet: Packet
    track: TrackInfo
    received_at: float


TextEvent = (
    Queued | Admitted | Welcome | CommandAnswered | StateChanged | TransportChanged | WorldChanged | WorldSaved
    | TrackChanged | KeyframeWanted | Cadence | Late | Ending | Bye | Message
)
