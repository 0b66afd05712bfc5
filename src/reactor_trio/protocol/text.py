"""Text messages: one JSON object `{"type": str, "data": object, "id": int?, "n": int?}` in either direction.

A type that starts with `reactor.` is the runtime's own; every other one is a model's command (client to server) or
message (server to client). `id` stands on a command and on its one answer; `n` numbers what the server says in a session,
from 1, the welcome.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal

import msgspec

from reactor_trio.errors import ProtocolError

PROTOCOL = 1
SUBPROTOCOL = "reactor.v1"

#: characters of an error's line: a refusal that quoted all of a message would be as large, and wait for who reads nothing
MAX_LINE = 1000

_MAX_ID = 2**63 - 1
_TRACEPARENT = re.compile(rb'"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"')


class NotFiniteError(ProtocolError):
    """Text that some JSON writers make and JSON has not: NaN or an infinity, at `path` of the message with this `id`."""

    def __init__(self, id: int | None, path: str) -> None:  # noqa: A002 - the wire's word
        super().__init__(f"NaN and infinities are not JSON - at {path}")
        self.id = id


class ClientText(msgspec.Struct):
    """A text message from the client; `data` stays undecoded until its type says what it must be.

    `traceparent` (W3C Trace Context) stays undecoded until somebody follows commands; anything else in its place is no
    mistake, as with any key that is not of the protocol.
    """

    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | None = None
    traceparent: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def trace(self) -> str | None:
        """The trace that the client says it is part of, None if it does not."""
        found = _TRACEPARENT.fullmatch(bytes(self.traceparent))
        return None if found is None else found[1].decode()


def _nothing() -> dict[str, Any]:
    return {}


class ServerText(msgspec.Struct, omit_defaults=True):
    """A text message from the server."""

    type: str
    data: Any = msgspec.field(default_factory=_nothing)  # msgspec would leave out an empty `{}`
    id: int | None = None
    n: int | None = None


class Color(msgspec.Struct, frozen=True):
    """How sample values mean colour, in the words of WebCodecs' `VideoColorSpace`."""

    matrix: str = "rgb"
    primaries: str = "bt709"
    transfer: str = "iec61966-2-1"
    full_range: bool = True


class TrackInfo(msgspec.Struct, frozen=True):
    """All that is needed to decode a track without guessing; sizes are null until the first frame is known.

    `coded_width` and `coded_height` are what a decoder gives where that is more than the picture: the picture lies at the
    top left of it. Packets of an input track name their codec themselves, one of `codecs`, best first.
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
    #: with it another client may watch this session, and nothing more; for the controlling client
    share_token: str | None = None
    #: seconds in which a client that was lost may come back with its resume token; None: as long as the server runs
    resume_window: float | None = None
    #: whether it has come back; then how many of its commands had come before, and how many messages are lost to it
    resumed: bool = False
    received: int = 0
    missed: int = 0
    #: the value of each setting now; those that JSON cannot say, or that are too large, are left out
    state: dict[str, Any] = msgspec.field(default_factory=dict)


class Admitted(msgspec.Struct):
    """Data of `reactor.admitted`, the last message of a gate: where the session is.

    Attributes:
        url: the WebSocket address to connect to, without a query.
        ticket: what to show there, as `token`; good for one connection.
        session_id: of the session that is reserved.
        claim_within: seconds from now in which to connect; then the place is somebody else's.
    """

    url: str
    ticket: str
    session_id: str
    claim_within: float


_encoder = msgspec.json.Encoder()
_client_text = msgspec.json.Decoder(ClientText)
_server_text = msgspec.json.Decoder(ServerText)


def encode_server_text(message: ServerText) -> str:
    """`message` as JSON text. Raises TypeError if its data cannot be JSON."""
    return _encoder.encode(message).decode()


def decode_server_text(text: str) -> ServerText:
    """The server's message in `text`. Raises ProtocolError."""
    try:
        return _server_text.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"not a message of the protocol: {error}") from None


def encode_client_text(type: str, data: dict[str, Any], id: int | None = None) -> str:  # noqa: A002 - the wire's words
    """A command or a runtime message of the client as JSON text. Raises TypeError if `data` cannot be JSON."""
    message: dict[str, Any] = {"type": type, "data": data}
    if id is not None:
        message["id"] = id
    return _encoder.encode(message).decode()


def decode_client_text(text: str) -> ClientText:
    """The client's message in `text`, its data undecoded. Raises ProtocolError with a readable reason."""
    try:
        message = _client_text.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        _look_for_non_finite(text)
        raise ProtocolError(f"not a message of the protocol: {readable(error)}") from None
    if message.id is not None and not -_MAX_ID <= message.id <= _MAX_ID:
        raise ProtocolError("id: expected a 64-bit integer")
    return message


def readable(error: BaseException) -> str:
    """A msgspec error in plain text: `Expected float <= 2.0 - at $.brightness`."""
    return str(error).replace("`", "")


def sendable(text: object) -> str:
    """`text` as UTF-8 can carry it: lone surrogates, as in the names of some files, become question marks."""
    return str(text).encode(errors="replace").decode()


def presentable(text: str) -> str:
    """A line about what the other end sent, which it may quote: sendable, and of `MAX_LINE` characters at most."""
    return sendable(text if len(text) <= MAX_LINE else f"{text[: MAX_LINE - 1]}…")


def _look_for_non_finite(text: str) -> None:
    """Raise NotFiniteError if that is all that is wrong: its sender waits for an answer to the id."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict) or (path := _non_finite_path(message.get("data"), "$", 32)) is None:
        return
    given = message.get("id")
    raise NotFiniteError(given if type(given) is int and abs(given) <= _MAX_ID else None, path)


def _non_finite_path(value: object, path: str, depth: int) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return path
    if depth == 0 or not isinstance(value, (dict, list)):
        return None
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inside = (_non_finite_path(item, f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]", depth - 1)
              for key, item in items)  # fmt: skip
    return next((found for found in inside if found is not None), None)
