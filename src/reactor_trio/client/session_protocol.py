"""The client's side of the protocol without I/O: text and packets in, events out. Every time is an argument.

A SessionProtocol numbers the commands, tracks the session's data, and measures. The Receiver acts on the events: it wakes
the waiting callers and hands frames to their consumers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from reactor_trio.client.session_events import (
    Bye,
    CommandAnswered,
    Ending,
    KeyframeWanted,
    Message,
    Queued,
    Received,
    SessionResumed,
    StateChanged,
    TextEvent,
    TrackChanged,
    TransportChanged,
    WorldChanged,
    WorldSaved,
)
from reactor_trio.client.statistics import SAMPLES, CommandMeter, LatencyMeter, Statistics, TrackMeter, spread
from reactor_trio.errors import CommandError, ProtocolError
from reactor_trio.protocol import (
    PLAYBACK,
    PROTOCOL,
    Admitted,
    Cadence,
    Late,
    ServerText,
    TrackInfo,
    VideoChoice,
    Welcome,
    decode_packet,
    decode_server_text,
    encode_client_text,
    readable,
)
from reactor_trio.protocol.text import non_finite_path

#: most tracks that a server may describe, and most settings whose values it may send, because each needs memory here
MOST_TRACKS, MOST_SETTINGS = 256, 1024
#: most commands whose values wait for an answer; above the limit of unanswered commands, because an answer may be lost
MOST_SETS = 2048

#: messages whose fields are the fields of an event
_PLAIN: dict[
    str,
    type[Cadence | KeyframeWanted | TransportChanged | WorldChanged | WorldSaved | Queued | Admitted | Late | Ending | Bye],
] = {
    "reactor.keyframe": KeyframeWanted,
    "reactor.cadence": Cadence,
    "reactor.transport": TransportChanged,
    "reactor.moment": WorldChanged,
    "reactor.saved": WorldSaved,
    "reactor.queued": Queued,
    "reactor.admitted": Admitted,
    "reactor.ending": Ending,
    "reactor.late": Late,
    "reactor.bye": Bye,
}


class _Ack(msgspec.Struct):
    step: int
    reply: Any = None


class _Error(msgspec.Struct):
    code: str
    message: str


T = TypeVar("T")


class SessionProtocol:
    """One session's protocol state. It outlives connections.

    Attributes:
        welcome: the session's data; None until it has begun.
        tracks: the current description of each track by index.
        state: the value of each setting, from the server's messages and this client's applied commands; always the same
            dict.
        paused: whether the session is paused.
        newest: the highest number of a server message so far.
        video: the choice of the newest `request_video`, with each video track's codecs where one list does not say it all;
            None before the first.
        commands, latency: measure the commands and their pictures.
    """

    def __init__(self) -> None:
        self.welcome: Welcome | None = None
        self.tracks: dict[int, TrackInfo] = {}
        self.state: dict[str, Any] = {}
        self.paused = False
        self.newest = 0
        self.video: VideoChoice | None = None
        self._last_id = 0
        #: by command id: the field and value that an unanswered `set_` command sets
        self._sets: dict[int, tuple[str, Any]] = {}
        self._to_ack: deque[float] = deque(maxlen=SAMPLES)
        self._to_picture: deque[float] = deque(maxlen=SAMPLES)
        self.commands = CommandMeter(self._to_ack.append, self._to_picture.append)
        self.latency = LatencyMeter()
        self._meters: dict[int, TrackMeter] = {}

    def command(self, name: str, arguments: Mapping[str, Any], now: float) -> tuple[int, str]:
        """Return the next command's id and text.

        Raises CommandError for NaN and infinities, which JSON does not have, and TypeError for other values without a JSON
        form.
        """
        data: dict[str, Any] = msgspec.to_builtins(dict(arguments), str_keys=True, enc_hook=_from_numpy)
        if (path := non_finite_path(data, depth=200)) is not None:
            raise CommandError("invalid_command", f"Expected a finite number - at {path}")
        text = encode_client_text(name, data, self._last_id + 1)
        self._last_id += 1
        self.commands.sent(self._last_id, now, shows=not self.paused and name not in PLAYBACK)
        field = name.removeprefix("set_")
        if field != name and field in data:
            self._sets[self._last_id] = (field, data[field])
            if len(self._sets) > MOST_SETS:
                del self._sets[next(iter(self._sets))]
        return self._last_id, text

    @staticmethod
    def feedback(track: int, seq: int) -> str:
        """Return the text that acknowledges frame `seq` of a track, and all frames before it."""
        return encode_client_text("reactor.feedback", {"track": track, "seq": seq})

    def request_video(self, codecs: Sequence[str], tracks: Mapping[str, Sequence[str]]) -> str:
        """Return the text that asks for these video codecs from now on, best first; none for no video.

        `tracks` has other codecs for single tracks.
        """
        named = {name: list(given) or ["none"] for name, given in tracks.items()}
        general = list(codecs) or ["none"]
        outputs = [track.name for track in self.tracks.values() if (track.kind, track.direction) == ("video", "out")]
        # A connection that begins with no video at all has no tracks; one that names them has.
        each = {name: named.get(name, general) for name in outputs} if named or not codecs else {}
        self.video = VideoChoice(general, each)
        return encode_client_text("reactor.video", {"video": general} | ({"tracks": named} if named else {}))

    def receive_text(self, text: str, now: float) -> TextEvent | None:
        """Return the event of a text message; None for a repeated one, `reactor.beat`, and what this version does not know.

        Raises ProtocolError for anything that the server must not send.
        """
        message = decode_server_text(text)
        if message.type == "reactor.beat":
            return None
        if message.n is not None and message.type != "reactor.welcome":
            before, self.newest = self.newest, max(self.newest, message.n)
            if message.n <= before:
                return None
        event = self._event(message, now)
        if isinstance(event, TransportChanged):
            self.paused = event.paused
            self._rest()
        if self.welcome is None and not isinstance(event, Queued | Admitted | Bye):
            raise ProtocolError(f"{message.type} came before reactor.welcome")
        if self.welcome is not None and isinstance(event, Admitted):
            raise ProtocolError("reactor.admitted came after reactor.welcome")
        return event

    def resumption(self, text: str) -> Welcome | Bye | None:
        """Return what the first text on a new connection to this session says; None if the session no longer exists.

        It changes nothing: `resume` does, once this connection is the session's. Raises ProtocolError for anything that the
        server must not send first.
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
        return welcome

    def resume(self, welcome: Welcome) -> SessionResumed:
        """Take the welcome of a new connection to this session. Raises ProtocolError."""
        tracks, state, paused = dict(self.tracks), dict(self.state), self.paused
        self.welcome = self._welcomed(welcome)
        if self.paused != paused:
            self._rest()
        return SessionResumed(
            welcome.received, welcome.missed,
            tuple(track for track in welcome.tracks if tracks.get(track.index) != track),
            {name: value for name, value in self.state.items() if name not in state or state[name] != value},
            self.paused if self.paused != paused else None,
        )  # fmt: skip

    def _event(self, message: ServerText, now: float) -> TextEvent | None:
        match message.type:
            case "reactor.ack":
                ack = _data(message, _Ack)
                answer = CommandAnswered(_id(message), ack.reply, step=ack.step)
                self.commands.answered(answer.id, now, applied=True)
                self._take_applied(answer.id)
                return answer
            case "reactor.error" if message.id is not None:
                error = _data(message, _Error)
                self.commands.answered(message.id, now, applied=False)
                self._sets.pop(message.id, None)
                return CommandAnswered(message.id, error=CommandError(error.code, error.message))
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
                return self.welcome
            case "reactor.welcome":
                raise ProtocolError("a second reactor.welcome")
            case unknown if unknown.startswith("reactor.") and unknown != "reactor.error":
                return None
            case _:
                return Message(message.type, message.data, message.n)

    def _take_applied(self, id: int) -> None:  # noqa: A002 - the wire's word
        """Take the value that this client set as the model's. A later message of the server may correct it."""
        field, value = self._sets.pop(id, (None, None))
        if field in self.state:
            self.state[field] = value

    def receive_packet(self, data: bytes | bytearray | memoryview, now: float) -> Received:
        """Return the frame in `data`. Raises ProtocolError."""
        packet = decode_packet(data)
        track = self.tracks.get(packet.track)
        if track is None:
            raise ProtocolError(f"a packet of track {packet.track}, which was never described")
        self._meters[track.index].add(packet, len(data), now)
        if self.paused:
            self._meters[track.index].rest()
        if track.kind == "video" and packet.command is not None:
            sent_at = self.commands.pictured(packet.command, now)
            if sent_at is not None:
                self.latency.arrived(track.index, packet.seq, packet.meta.get("timing"), sent_at, now)
        return Received(packet, track, now)

    def statistics(
        self, now: float, lost: Mapping[int, tuple[int, int]] = {}, messages_dropped: int = 0, comebacks: int = 0,
        seconds_lost: float = 0.0,
    ) -> Statistics:  # fmt: skip
        """Return the figures at `now`; `lost` has (dropped, skipped) of the client's own queues by track index."""
        outputs = [track for track in self.tracks.values() if track.direction == "out"]
        tracks = {track.name: self._meters[track.index].statistics(now, *lost.get(track.index, ())) for track in outputs}
        to_ack, to_picture, latency = spread(self._to_ack), spread(self._to_picture), self.latency.statistics()
        return Statistics(tracks, to_ack, to_picture, messages_dropped, latency, comebacks, seconds_lost)

    def _welcomed(self, welcome: Welcome) -> Welcome:
        if welcome.protocol != PROTOCOL:
            raise ProtocolError(f"the server speaks protocol {welcome.protocol}, this client {PROTOCOL}")
        for track in welcome.tracks:
            self._describe(track)
        self.state.clear()
        self.paused = welcome.paused
        self._take_values(welcome.state)
        return welcome

    def _rest(self) -> None:
        """Count the time of a pause in no figure."""
        self.commands.rest()
        for meter in self._meters.values():
            meter.rest()

    def _take_values(self, values: Mapping[str, Any]) -> None:
        if len(self.state.keys() | values.keys()) > MOST_SETTINGS:
            raise ProtocolError(f"more than {MOST_SETTINGS} settings")
        self.state |= values

    def _describe(self, track: TrackInfo) -> TrackInfo:
        sizes = (track.width, track.height, track.coded_width, track.coded_height)
        if any(size is not None and size < 1 for size in sizes):
            raise ProtocolError(f"track {track.name}: no picture has the size {track.width}x{track.height}")
        if track.index not in self.tracks and len(self.tracks) >= MOST_TRACKS:
            raise ProtocolError(f"more than {MOST_TRACKS} tracks")
        self.tracks[track.index] = track
        self._meters.setdefault(track.index, TrackMeter())
        return track


def _from_numpy(value: Any) -> Any:
    """Convert a numpy scalar or array, which msgspec does not know."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"an argument of type {type(value).__name__} has no JSON form")


def _id(message: ServerText) -> int:
    if message.id is None:
        raise ProtocolError(f"{message.type} without an id")
    return message.id


def _data(message: ServerText, type_: type[T]) -> T:
    try:
        return msgspec.convert(message.data, type_)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{message.type}: {readable(error)}") from None
