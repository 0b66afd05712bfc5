"""The client's side of the protocol without I/O: text and packets in, events out, every time an argument.

A Conversation numbers the commands, knows the session and its tracks, and measures. What to do with an event (wake the
waiting caller, hand a frame to its consumers) is the Client's business.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from reactor_trio.client.statistics import CommandMeter, LatencyMeter, Statistics, TrackMeter, spread
from reactor_trio.errors import CommandError, ProtocolError
from reactor_trio.protocol import (
    PROTOCOL,
    Packet,
    ServerText,
    TrackInfo,
    Welcome,
    decode_packet,
    decode_server_text,
    encode_client_text,
)


class Queued(msgspec.Struct, frozen=True):
    """The session has not begun: `position` in the queue, from 1, of `total`."""

    position: int
    total: int


class Welcomed(msgspec.Struct, frozen=True):
    """The session has begun; `Conversation.welcome` and `tracks` are set."""


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


TextEvent = Queued | Welcomed | Answered | TrackChanged | KeyframeWanted | Ending | Bye | Message


class _Ack(msgspec.Struct):
    step: int
    reply: Any = None


class _Error(msgspec.Struct):
    code: str
    message: str


T = TypeVar("T")


class Conversation:
    """One connection's protocol state.

    Attributes:
        welcome: the session's data, None until it has begun.
        tracks: the tracks' present descriptions by index.
    """

    def __init__(self) -> None:
        self.welcome: Welcome | None = None
        self.tracks: dict[int, TrackInfo] = {}
        self._last_id = 0
        self._commands = CommandMeter()
        self._latency = LatencyMeter()
        self._meters: dict[int, TrackMeter] = {}

    def command(self, name: str, arguments: Mapping[str, Any], now: float) -> tuple[int, str]:
        """The next command's id and text.

        Raises CommandError for NaN and infinities, which JSON does not have, and TypeError for what else it does not.
        """
        data = msgspec.to_builtins(dict(arguments), str_keys=True, enc_hook=_plain)
        _refuse_non_finite(data, "$")
        self._last_id += 1
        text = encode_client_text(name, data, self._last_id)
        self._commands.sent(self._last_id, now)
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

    @staticmethod
    def request_video(codecs: Sequence[str]) -> str:
        """The text that says which codecs are decoded from now on, best first; none for no video."""
        return encode_client_text("reactor.video", {"video": list(codecs) or ["none"]})

    def receive_text(self, text: str, now: float) -> TextEvent | None:
        """What the server's text means; None for a runtime message that this version does not know.

        Raises ProtocolError for anything that the server must not say.
        """
        message = decode_server_text(text)
        event = self._event(message, now)
        if self.welcome is None and not isinstance(event, Queued | Bye):
            raise ProtocolError(f"{message.type} came before reactor.welcome")
        return event

    def _event(self, message: ServerText, now: float) -> TextEvent | None:
        match message.type:
            case "reactor.ack":
                ack = _data(message, _Ack)
                answer = Answered(_id(message), ack.reply, step=ack.step)
                self._commands.answered(answer.id, now, applied=True)
                return answer
            case "reactor.error" if message.id is not None:
                error = _data(message, _Error)
                self._commands.answered(message.id, now, applied=False)
                return Answered(message.id, error=CommandError(error.code, error.message))
            case "reactor.track":
                return TrackChanged(self._describe(_data(message, TrackInfo)))
            case "reactor.keyframe":
                return _data(message, KeyframeWanted)
            case "reactor.queued":
                return _data(message, Queued)
            case "reactor.ending":
                return _data(message, Ending)
            case "reactor.bye":
                return _data(message, Bye)
            case "reactor.welcome":
                self.welcome = self._welcomed(_data(message, Welcome))
                return Welcomed()
            case "reactor.error":
                return Message(message.type, message.data, message.n)
            case runtime if runtime.startswith("reactor."):
                return None
            case _:
                return Message(message.type, message.data, message.n)

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
        if self.welcome is not None:
            raise ProtocolError("a second reactor.welcome")
        if welcome.protocol != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {welcome.protocol}, this client {PROTOCOL}")
        for track in welcome.tracks:
            self._describe(track)
        return welcome

    def _describe(self, track: TrackInfo) -> TrackInfo:
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


def _plain(value: Any) -> Any:
    """A numpy scalar or array as Python numbers, for msgspec, which knows neither."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"an argument of type {type(value).__name__} has no JSON form")


def _refuse_non_finite(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise CommandError("invalid_command", f"Expected a finite number, got {value} - at {path}")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{index}]")
