"""The client's side of the protocol without I/O: text and packets in, events out, every time an argument.

A Conversation numbers the commands, knows the session and its tracks, and measures. What to do with an event (wake the
waiting caller, hand a frame to its consumers) is the Client's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from reactor_trio.client.json_arguments import plain
from reactor_trio.client.statistics import CommandMeter, LatencyMeter, Statistics, TrackMeter, spread
from reactor_trio.errors import CommandError, ProtocolError
from reactor_trio.protocol import (
    PROTOCOL,
    Admitted,
    Packet,
    ServerText,
    TrackInfo,
    Welcome,
    decode_packet,
    decode_server_text,
    encode_client_text,
)

#: tracks that a server may describe; for each something is kept
MOST_TRACKS = 256
#: settings that a server may tell the values of
MOST_SETTINGS = 1024
#: commands whose answers may be to come, or lost, of which it is kept what they set; more than may be unanswered
MOST_SETS = 2048


class Queued(msgspec.Struct, frozen=True):
    """The session has not begun: `position` in the queue, from 1, of `total`.

    Attributes:
        reason: why the server has no room, where that is not because of other clients.
    """

    position: int
    total: int
    reason: str = ""


class Welcomed(msgspec.Struct, frozen=True):
    """The session has begun; `Conversation.welcome` and `tracks` are set."""


class Returned(msgspec.Struct, frozen=True):
    """The session goes on over another connection.

    Attributes:
        received: commands of this client that the server has read, over all connections.
        missed: messages that it said meanwhile and does not have any more; those behind them follow.
        changed: tracks that are described otherwise than before.
    """

    received: int
    missed: int = 0
    changed: tuple[TrackInfo, ...] = ()


class Answered(msgspec.Struct, frozen=True):
    """Command `id` was applied (`error` is None) or refused."""

    id: int
    reply: Any = None
    error: CommandError | None = None
    #: the first that sees it, if it was applied
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
    """Settings have other values than this client took them to have; `Conversation.state` has them."""

    values: Mapping[str, Any]


class KeyframeWanted(msgspec.Struct, frozen=True):
    """The server cannot go on decoding an input track without a keyframe."""

    track: int


class Ending(msgspec.Struct, frozen=True):
    """The session ends in `seconds`, and why; None: that has been taken back."""

    reason: str
    seconds: float | None


class Bye(msgspec.Struct, frozen=True):
    """The server ends the session."""

    reason: str
    message: str = ""


class Message(msgspec.Struct, frozen=True):
    """A message of the model: its type, its fields, and its number among the server's text messages.

    An error that answers no command comes this way too, with type `reactor.error`.
    """

    type: str
    data: Any
    n: int | None = None


class Received(msgspec.Struct, frozen=True):
    """A packet, its track as it was described at that time, and the time of arrival."""

    packet: Packet
    track: TrackInfo
    received_at: float


TextEvent = (
    Queued | Admitted | Welcomed | Answered | StateChanged | TrackChanged | KeyframeWanted | Ending | Bye | Message
)


#: messages that mean what they say
_PLAIN: dict[str, type[KeyframeWanted | Queued | Admitted | Ending | Bye]] = {
    "reactor.keyframe": KeyframeWanted,
    "reactor.queued": Queued,
    "reactor.admitted": Admitted,
    "reactor.ending": Ending,
    "reactor.bye": Bye,
}


class _Ack(msgspec.Struct):
    step: int
    reply: Any = None


class _Error(msgspec.Struct):
    code: str
    message: str


T = TypeVar("T")


class Conversation:
    """One session's protocol state.

    Attributes:
        welcome: the session's data, None until it has begun.
        tracks: the tracks' present descriptions by index.
        state: the value of each setting, as the server told it or as this client set it since; always the same object.
        newest: the highest number of a message of the server, of those that it numbers.
        video: the codecs that the server was asked for since the session began; None: it was not.
    """

    def __init__(self) -> None:
        self.welcome: Welcome | None = None
        self.tracks: dict[int, TrackInfo] = {}
        self.state: dict[str, Any] = {}
        self.newest = 0
        self.video: tuple[str, ...] | None = None
        self._last_id = 0
        #: what commands without an answer set, by their ids
        self._sets: dict[int, tuple[str, Any]] = {}
        self._commands = CommandMeter()
        self._latency = LatencyMeter()
        self._meters: dict[int, TrackMeter] = {}

    def command(self, name: str, arguments: Mapping[str, Any], now: float) -> tuple[int, str]:
        """The next command's id and text.

        Raises CommandError for NaN and infinities, which JSON does not have, and TypeError for what else it does not.
        """
        data = plain(arguments)
        text = encode_client_text(name, data, self._last_id + 1)
        self._last_id += 1
        self._commands.sent(self._last_id, now)
        field = name.removeprefix("set_")
        if field != name and field in data:
            self._sets[self._last_id] = (field, data[field])
            if len(self._sets) > MOST_SETS:
                del self._sets[next(iter(self._sets))]
        return self._last_id, text

    def forget(self, id: int) -> None:  # noqa: A002 - the wire's word
        """Nobody waits for command `id` any more, or it was never sent: leave it out of the figures."""
        self._commands.forget(id)

    @staticmethod
    def feedback(track: int, seq: int) -> str:
        """The text that says that frame `seq` of a track, and all before it, have come."""
        return encode_client_text("reactor.feedback", {"track": track, "seq": seq})

    @staticmethod
    def request_keyframe(track: int) -> str:
        """The text that asks for a frame that can be decoded without those before it."""
        return encode_client_text("reactor.keyframe", {"track": track})

    def request_video(self, codecs: Sequence[str]) -> str:
        """The text that says which codecs are decoded from now on, best first; none for no video."""
        self.video = tuple(codecs)
        return encode_client_text("reactor.video", {"video": list(codecs) or ["none"]})

    def receive_text(self, text: str, now: float) -> TextEvent | None:
        """What the server's text means; None for a runtime message that this version does not know.

        Raises ProtocolError for anything that the server must not say.
        """
        message = decode_server_text(text)
        if self._said_before(message):
            return None
        event = self._event(message, now)
        if self.welcome is None and not isinstance(event, Queued | Admitted | Bye):
            raise ProtocolError(f"{message.type} came before reactor.welcome")
        if self.welcome is not None and isinstance(event, Admitted):
            raise ProtocolError("reactor.admitted came after reactor.welcome")
        return event

    def receive_return(self, text: str) -> Returned | Bye | None:
        """What the first text of another connection to this session means; None if the session is not there any more.

        Raises ProtocolError for anything else than a server says then.
        """
        message = decode_server_text(text)
        match message.type:
            case "reactor.queued":
                return None
            case "reactor.bye":
                return _data(message, Bye)
            case "reactor.welcome":
                welcome = _data(message, Welcome)
            case other:
                raise ProtocolError(f"{other} came before reactor.welcome")
        assert self.welcome is not None, "no session has begun"
        if not welcome.resumed or welcome.session_id != self.welcome.session_id:
            return None
        changed = tuple(track for track in welcome.tracks if self.tracks.get(track.index) != track)
        self.welcome = self._welcomed(welcome)
        return Returned(welcome.received, welcome.missed, changed)

    def _said_before(self, message: ServerText) -> bool:
        """Whether this is a message that is said again, although it had come."""
        if message.n is None or message.type == "reactor.welcome":
            return False
        before, self.newest = self.newest, max(self.newest, message.n)
        return message.n <= before

    def _event(self, message: ServerText, now: float) -> TextEvent | None:
        match message.type:
            case "reactor.ack":
                ack = _data(message, _Ack)
                answer = Answered(_id(message), ack.reply, step=ack.step)
                self._commands.answered(answer.id, now, applied=True)
                self._applied(answer.id)
                return answer
            case "reactor.error" if message.id is not None:
                error = _data(message, _Error)
                self._commands.answered(message.id, now, applied=False)
                self._sets.pop(message.id, None)
                return Answered(message.id, error=CommandError(error.code, error.message))
            case "reactor.state":
                changed = StateChanged(_data(message, dict[str, Any]))
                self._take_values(changed.values)
                return changed
            case "reactor.track":
                return TrackChanged(self._describe(_data(message, TrackInfo)))
            case plain if plain in _PLAIN:
                return _data(message, _PLAIN[plain])
            case "reactor.welcome" if self.welcome is None:
                self.welcome = self._welcomed(_data(message, Welcome))
                self.newest = message.n or 0
                return Welcomed()
            case "reactor.welcome":
                raise ProtocolError("a second reactor.welcome")
            case "reactor.error":
                return Message(message.type, message.data, message.n)
            case runtime if runtime.startswith("reactor."):
                return None
            case _:
                return Message(message.type, message.data, message.n)

    def _applied(self, id: int) -> None:  # noqa: A002 - the wire's word
        """What this client set is what the model has, unless the server tells otherwise behind the answer."""
        field, value = self._sets.pop(id, (None, None))
        if field in self.state:
            self.state[field] = value

    def receive_packet(self, data: bytes | bytearray | memoryview, now: float) -> Received:
        """The frame in `data`. Raises ProtocolError."""
        packet = decode_packet(data)
        track = self.tracks.get(packet.track)
        if track is None:
            raise ProtocolError(f"a packet of track {packet.track}, which was never described")
        self._meters[track.index].add(packet, len(data), now)
        if track.kind == "video" and packet.command is not None:
            sent_at = self._commands.pictured(packet.command, now)
            if sent_at is not None:
                self._latency.arrived(track.index, packet.seq, packet.meta.get("timing"), sent_at, now)
        return Received(packet, track, now)

    def given(self, received: Received, now: float) -> None:
        """The frame in `received` was decoded and given to its consumer."""
        self._latency.given(received.track.index, received.packet.seq, now)

    def statistics(
        self, now: float, lost: Mapping[int, tuple[int, int]] | None = None, messages_dropped: int = 0
    ) -> Statistics:
        """The figures at `now`; `lost` has the frames (dropped, skipped) in the client's own queues by track index."""
        lost = lost or {}
        return Statistics(
            {
                track.name: self._meters[index].statistics(now, *lost.get(index, ()))
                for index, track in self.tracks.items()
                if track.direction == "out"
            },
            spread(self._commands.to_ack),
            spread(self._commands.to_picture),
            messages_dropped,
            self._latency.statistics(),
        )

    def _welcomed(self, welcome: Welcome) -> Welcome:
        if welcome.protocol != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {welcome.protocol}, this client {PROTOCOL}")
        for track in welcome.tracks:
            self._describe(track)
        self.state.clear()
        self._take_values(welcome.state)
        return welcome

    def _take_values(self, values: Mapping[str, Any]) -> None:
        if len(self.state.keys() | values.keys()) > MOST_SETTINGS:
            raise ProtocolError(f"more than {MOST_SETTINGS} settings")
        self.state |= values

    def _describe(self, track: TrackInfo) -> TrackInfo:
        sizes = (track.width, track.height, track.coded_width, track.coded_height)
        if any(size is not None and size < 1 for size in sizes):
            raise ProtocolError(f"track {track.name}: no picture is {track.width}x{track.height}")
        if track.index not in self.tracks and len(self.tracks) >= MOST_TRACKS:
            raise ProtocolError(f"more than {MOST_TRACKS} tracks")
        self.tracks[track.index] = track
        self._meters.setdefault(track.index, TrackMeter())
        return track


def _id(message: ServerText) -> int:
    if message.id is None:
        raise ProtocolError(f"{message.type} without an id")
    return message.id


def _data(message: ServerText, type_: type[T]) -> T:
    try:
        return msgspec.convert(message.data, type_)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{message.type}: {str(error).replace('`', '')}") from None
