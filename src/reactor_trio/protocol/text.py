"""Text messages: one JSON object `{"type": str, "data": object, "id": int?, "n": int?}` in either direction.

A type that starts with `reactor.` belongs to the runtime. Every other type is a command of the model (client to server) or
a message of the model (server to client). `id` is the client's number of a command; the one answer to that command repeats
it. `n` numbers the server's messages of a session from 1, the welcome.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, Literal

import msgspec

from reactor_trio.errors import ProtocolError
from reactor_trio.plain_text import sendable

PROTOCOL = 1
SUBPROTOCOL = "reactor.v1"

#: Characters of an error's text at most. An error that quoted a whole message would be as large as that message, and would
#: fill the send queue of a client that does not read.
MAX_LINE = 1000

_MAX_ID = 2**63 - 1
_TRACEPARENT = re.compile(rb'"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"')


class NotFiniteError(ProtocolError):
    """A message has NaN or an infinity at `path`. Some JSON writers produce these values, but JSON has no form for them."""

    def __init__(self, id: int | None, path: str) -> None:  # noqa: A002 - the wire's word
        super().__init__(f"NaN and infinities are not JSON - at {path}")
        self.id = id


class ClientText(msgspec.Struct):
    """A text message from the client. `data` stays undecoded, because its shape depends on the type.

    `traceparent` (W3C Trace Context) stays undecoded until tracing needs it. An invalid one is ignored, like a key that the
    protocol does not have.
    """

    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | None = None
    traceparent: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def trace(self) -> str | None:
        """The client's `traceparent`, None if it is missing or invalid."""
        found = _TRACEPARENT.fullmatch(bytes(self.traceparent))
        return None if found is None else found[1].decode()


class ServerText(msgspec.Struct, omit_defaults=True):
    """A text message from the server."""

    type: str
    data: Any = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 - of `dict` msgspec would omit an empty `{}`
    id: int | None = None
    n: int | None = None


class Color(msgspec.Struct, frozen=True):
    """The colour space of a track's samples, in the terms of WebCodecs' `VideoColorSpace`."""

    matrix: str = "rgb"
    primaries: str = "bt709"
    transfer: str = "iec61966-2-1"
    full_range: bool = True


class TrackInfo(msgspec.Struct, frozen=True):
    """Everything that a client needs to decode a track, or to send one. Sizes are null until the first frame is known.

    `coded_width` and `coded_height` are the size of the decoder's output where it is larger than the picture; the picture
    is at its top left. `codecs` lists what an input track accepts, best first; each packet of it names its own codec.
    """

    index: int
    name: str
    kind: Literal["video", "audio"]
    direction: Literal["out", "in"]
    codec: str | None
    codec_string: str | None = None
    width: int | None = None
    height: int | None = None
    coded_width: int | None = None
    coded_height: int | None = None
    pixel_format: str | None = None
    color: Color | None = None
    sample_rate: int | None = None
    codecs: tuple[str, ...] | None = None


class WorldMoment(msgspec.Struct, frozen=True):
    """A moment of a session that is kept: the world after one step.

    Attributes:
        step: number of the step.
        age: seconds of the world's own time; it goes back with a rewind.
        bytes: size of the world.
        picture: whether there is a picture of it.
    """

    step: int
    age: float
    bytes: int
    picture: bool = False


class WorldInStore(msgspec.Struct, frozen=True):
    """A saved world.

    Attributes:
        id: restores it, so it is a secret.
        name: what its player has called it.
        step, age, bytes: of the moment that was saved; see `WorldMoment`.
        saved_at, expires: when it was saved, and until when it is kept, in seconds since 1970.
    """

    id: str
    name: str
    step: int
    age: float
    bytes: int
    saved_at: float
    expires: float


class WorldList(msgspec.Struct, frozen=True):
    """The worlds that a session may go back to: the reply to `reactor.worlds`.

    Attributes:
        moments: those that are kept, in the order of the world's own time, also the ones ahead of a rewind.
        bytes: what they need, with their pictures; parts that did not change count once.
        most: how many bytes they may need.
        worlds: those that this session has saved.
        undo: the world from before the newest rewind, while that can be taken back.
    """

    moments: tuple[WorldMoment, ...]
    bytes: int
    most: int
    worlds: tuple[WorldInStore, ...] = ()
    undo: WorldMoment | None = None


class Worlds(msgspec.Struct, omit_defaults=True):
    """What a client may do with the worlds of its session, in the welcome of one that connects with `worlds=1`."""

    #: names of messages without `reactor.`
    may: tuple[str, ...]
    #: for `GET /moments`; left out for a viewer
    token: str | None = None
    #: whether saved worlds outlive their session, because the server has a store
    lasting: bool = False


class Welcome(msgspec.Struct):
    """Data of `reactor.welcome`, the first message of a session."""

    session_id: str
    protocol: int
    name: str
    role: str
    heartbeat: float
    resume_token: str | None
    upload_token: str | None
    schema: dict[str, Any]
    tracks: list[TrackInfo]
    #: lets another client watch this session, and nothing more; only the controlling client gets one
    share_token: str | None = None
    #: seconds in which a lost client may resume with its resume token; None: as long as the server runs
    resume_window: float | None = None
    #: whether this client resumed a session; then how many of its commands the server had received before, and how many
    #: messages it has missed for good
    resumed: bool = False
    received: int = 0
    missed: int = 0
    #: the current value of each setting; without values that have no JSON form or are too large
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    #: names what the model declares; see `interface/schema_hash.py`
    schema_hash: str = ""
    #: which of `pause`, `step` and `restart` this client may send; none to a viewer
    transport: tuple[str, ...] = ()
    #: whether the session is paused
    paused: bool = False
    #: None if the model saves no worlds; left out for a client that does not ask
    worlds: Worlds | msgspec.UnsetType | None = msgspec.UNSET


class Late(msgspec.Struct, frozen=True):
    """Data of `reactor.late`: code of the model takes long, although nothing is wrong with the link.

    Attributes:
        what: the code, as the beginning of a sentence that ends with `for 5 s`: `step 7 has run`; None: none takes long any
            more.
        seconds: for how long it runs until now.
    """

    what: str | None
    seconds: float = 0.0


class Admitted(msgspec.Struct):
    """Data of `reactor.admitted`, the last message of a gate: the address of the reserved session.

    Attributes:
        url: the WebSocket address to connect to, without a query.
        ticket: the value for the query parameter `token` there; valid for one connection.
        session_id: id of the reserved session.
        claim_within: seconds from now in which the client must connect; then the reservation ends.
    """

    url: str
    ticket: str
    session_id: str
    claim_within: float


_encoder = msgspec.json.Encoder()
_client_text = msgspec.json.Decoder(ClientText)
_server_text = msgspec.json.Decoder(ServerText)


def encode_server_text(message: ServerText) -> str:
    """Encode `message` as JSON. Raises TypeError if its data has no JSON form."""
    return _encoder.encode(message).decode()


#: The whole text of `reactor.beat`. It has no number, and a client that comes back does not get it again.
BEAT: Final = encode_server_text(ServerText("reactor.beat"))


def decode_server_text(text: str) -> ServerText:
    """Decode a message of the server. Raises ProtocolError."""
    try:
        return _server_text.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"not a message of the protocol: {error}") from None


def encode_client_text(type: str, data: dict[str, Any], id: int | None = None) -> str:  # noqa: A002 - the wire's words
    """Encode a command or a runtime message of the client as JSON. Raises TypeError if `data` has no JSON form."""
    return _encoder.encode({"type": type, "data": data} | ({} if id is None else {"id": id})).decode()


def decode_client_text(text: str) -> ClientText:
    """Decode a message of the client, except its data. Raises ProtocolError with a readable reason."""
    try:
        message = _client_text.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        _refuse_non_finite(text)
        raise ProtocolError(f"not a message of the protocol: {readable(error)}") from None
    if message.id is not None and not -_MAX_ID <= message.id <= _MAX_ID:
        raise ProtocolError("id: expected a 64-bit integer")
    return message


def readable(error: BaseException) -> str:
    """Return the text of a msgspec error without backticks: `Expected float <= 2.0 - at $.brightness`."""
    return str(error).replace("`", "")


def presentable(text: str) -> str:
    """Make an error text that may quote the other end sendable, and cut it to `MAX_LINE` characters."""
    return sendable(text if len(text) <= MAX_LINE else f"{text[: MAX_LINE - 1]}…")


def printable_ascii(text: str) -> str:
    """Return `text` with an escape in place of each control character and each character that is not ASCII: `\\x1b`."""
    return re.sub("[^ -~]", lambda found: found[0].encode("unicode_escape").decode(), text)


def _refuse_non_finite(text: str) -> None:
    """Raise NotFiniteError if NaN or an infinity is the only fault: the sender gets an error with the command's id."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict) or (path := non_finite_path(message.get("data"))) is None:
        return
    given = message.get("id")
    raise NotFiniteError(given if type(given) is int and abs(given) <= _MAX_ID else None, path)


def non_finite_path(value: object, depth: int = 32) -> str | None:
    """Return the path of the first NaN or infinity in `value`, down to `depth` levels; None if there is none.

    Linear in the size of `value`: it writes the path only when it has found the number.
    """
    keys = _keys_to_non_finite(value, depth)
    return None if keys is None else "$" + "".join(reversed(keys))


def _keys_to_non_finite(value: object, depth: int) -> list[str] | None:
    """The keys on the way to the first NaN or infinity, the last one first."""
    if isinstance(value, float):
        return None if math.isfinite(value) else []
    if depth == 0 or not isinstance(value, (dict, list)):
        return None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, (float, dict, list)) and (keys := _keys_to_non_finite(item, depth - 1)) is not None:
            keys.append(f".{key}" if isinstance(key, str) else f"[{key}]")
            return keys
    return None
