"""A model's schema as an AsyncAPI 3.0 document: all messages on the WebSocket, for code generators and readers.

The document takes the server's point of view: the server *receives* commands and *sends* messages. AsyncAPI understands
JSON Schema draft 7 without a plug-in, so this module rewrites the 2020-12 keywords of our schemas to draft 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from reactor_trio.protocol.client_messages import (
    PLAYBACK,
    Cadence,
    Feedback,
    Fork,
    Keyframe,
    ListWorlds,
    Pause,
    Restart,
    Rewind,
    Save,
    SavedWorld,
    Step,
    VideoChoice,
)
from reactor_trio.protocol.reasons import CLOSE_CODES, END_REASONS, REFUSED
from reactor_trio.protocol.refusals import REFUSAL_CODES
from reactor_trio.protocol.text import SUBPROTOCOL, Admitted, Late, TrackInfo, Welcome, WorldMoment

Sender = Literal["server", "client", "both"]

_CHANNEL = "session"
_JSON = "application/json"


class _Queued(msgspec.Struct, omit_defaults=True):
    position: int
    total: int
    #: seconds
    wait: float | None = None
    #: seconds between two pings
    heartbeat: float | None = None
    reason: str = ""


class _Ack(msgspec.Struct, omit_defaults=True):
    step: int
    reply: Any = None


class _Error(msgspec.Struct):
    code: str
    message: str


class _Ending(msgspec.Struct):
    reason: Literal["expired", "idle", "draining"]
    seconds: float | None


class _Bye(msgspec.Struct, omit_defaults=True):
    reason: Literal[(*END_REASONS, REFUSED)]  # type: ignore[valid-type]
    message: str = ""
    #: of a refusal
    status: int | None = None
    retry_after: int | None = None
    code: Literal[REFUSAL_CODES] | None = None  # type: ignore[valid-type]


class _Beat(msgspec.Struct):
    pass


class _Paused(msgspec.Struct):
    paused: bool


class _Moment(msgspec.Struct):
    #: the first step that goes on from it
    step: int
    to: WorldMoment
    why: str
    #: the age at the step that was on screen; absent if that is no other moment of the same past
    from_age: float | msgspec.UnsetType = msgspec.field(name="from", default=msgspec.UNSET)


class _Saved(msgspec.Struct, omit_defaults=True):
    world: str
    #: why it is not in the store
    code: str | None = None
    message: str = ""


_STATE = "The value of each setting that differs from the one that the server sent last and that the client set since."
#: the runtime's own messages: type, who sends it, summary, and the type of its data
_MESSAGES: tuple[tuple[str, Sender, str, type], ...] = (
    ("reactor.queued", "server", "The client waits for a session; sent again when its position changes.", _Queued),
    ("reactor.admitted", "server", "The last message of a gate: the session's address, and the ticket for it.", Admitted),
    ("reactor.welcome", "server", "The first message of a session.", Welcome),
    ("reactor.ack", "server", "A command was applied; the model's step `step` is the first to use it.", _Ack),
    ("reactor.error", "server", "A command or message was refused and changed nothing.", _Error),
    ("reactor.track", "server", "A track's description, before the first frame of a new size or codec.", TrackInfo),
    ("reactor.ending", "server", "The session ends in `seconds`; null cancels this. A newer one replaces it.", _Ending),
    ("reactor.late", "server", "The model's code takes long: `what` for `seconds` until now; null: not any more.", Late),
    ("reactor.bye", "server", "Why the session ended, or why the client was refused; the socket closes next.", _Bye),
    ("reactor.beat", "server", "Nothing else was sent for a heartbeat, to a client with `beat=1`.", _Beat),
    ("reactor.feedback", "client", "The newest frame that the client has shown.", Feedback),
    ("reactor.cadence", "server", "How often to acknowledge a track from now on, to a client with `cadence=1`.", Cadence),
    ("reactor.video", "client", "The video codecs that the client decodes from now on.", VideoChoice),
    ("reactor.state", "server", _STATE, dict),
    ("reactor.transport", "server", "The session was paused, or goes on.", _Paused),
    ("reactor.pause", "client", "Begin no further step and hold the picture, or go on.", Pause),
    ("reactor.step", "client", "Make so many steps; only while the session is paused.", Step),
    ("reactor.restart", "client", "Close the model's generator and start a new one, with the state kept or fresh.", Restart),
    ("reactor.rewind", "client", "Go back to an earlier moment of the session.", Rewind),
    ("reactor.save", "client", "Save the world of the session; `reactor.saved` says when it is stored.", Save),
    ("reactor.restore", "client", "Go on from a saved world.", SavedWorld),
    ("reactor.forget", "client", "Delete a saved world.", SavedWorld),
    ("reactor.fork", "client", "Make a token with which another session may begin at this world.", Fork),
    ("reactor.saved", "server", "A world is in the store, or `code` says why not.", _Saved),
    ("reactor.worlds", "client", "List the moments that the session may go back to.", ListWorlds),
    ("reactor.moment", "server", "The world is that of an earlier moment, to a client with `worlds=1`.", _Moment),
    ("reactor.keyframe", "both", "Asks the sender of a track for a keyframe.", Keyframe),
)
_ANSWERS = ("reactor.ack", "reactor.error")


def asyncapi_document(schema: Mapping[str, Any], *, host: str, secure: bool = False) -> dict[str, Any]:
    """Return the AsyncAPI document of a model.

    Args:
        schema: the document that `GET /schema` returns.
        host: host and port of the server, as a client writes them.
        secure: whether clients connect with TLS.
    """
    return _Document(schema).build(host, secure)


class _Document:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._messages: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}
        self._operations: dict[str, Any] = {}

    def build(self, host: str, secure: bool) -> dict[str, Any]:
        for command in self._schema["commands"]:
            summary = command["description"]
            key = self._text(command["name"], summary, command["schema"], "client", prefix="command.", answered=True)
            self._operation(key, "receive", [key], summary, reply=_ANSWERS)
        for name, sender, summary, data in _MESSAGES:
            self._text(name, summary, _schema_of(data), sender, answered=name in PLAYBACK)
        from_model = [self._text(m["name"], m["schema"].get("description", ""), m["schema"], "server", prefix="message.")
                      for m in self._schema["messages"]]  # fmt: skip
        self._operation("runtime", "send", [m[0] for m in _MESSAGES if m[1] != "client"], "Messages from the runtime.")
        self._operation("client", "receive", [m[0] for m in _MESSAGES if m[1] != "server" and m[0] not in PLAYBACK],
                        "Messages from clients.")  # fmt: skip
        self._operation("transport", "receive", list(PLAYBACK), "Pause, step, restart and rewind the model.", reply=_ANSWERS)
        if from_model:
            self._operation("messages", "send", from_model, "Messages from the model.")
        ways: tuple[tuple[str, Literal["send", "receive"]], ...] = (("out", "send"), ("in", "receive"))
        for direction, action in ways:
            if tracks := ", ".join(t["name"] for t in self._schema["tracks"] if t["direction"] == direction):
                self._packet()
                self._operation(f"frames.{direction}", action, ["packet"], f"Frames of the tracks {tracks}.")
        name, version = self._schema["name"], self._schema["protocol"]
        return {
            "asyncapi": "3.0.0",
            "info": {
                "title": name,
                "version": str(version),
                "description": f"The model {name} over the reactor-trio wire protocol, version {version}: one WebSocket, "
                "JSON in text messages, MessagePack in binary ones.",
            },
            "defaultContentType": _JSON,
            "servers": {"default": {"host": host, "protocol": "wss" if secure else "ws"}},
            "channels": {
                _CHANNEL: {
                    "address": "/ws",
                    "title": "One client's WebSocket",
                    "description": f"Subprotocol `{SUBPROTOCOL}` (optional). Close codes of `reactor.bye`: "
                    + ", ".join(f"{reason} {code}" for reason, code in CLOSE_CODES.items())
                    + ", refused 1008, 1011 or 1013, every other reason 1001.",
                    "servers": [_ref("servers", "default")],
                    "messages": {key: _ref("components", "messages", key) for key in self._messages},
                    "bindings": {"ws": {"method": "GET", "query": _QUERY, "bindingVersion": "0.1.0"}},
                }
            },
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas},
        }

    def _text(
        self, name: str, summary: str, data: Mapping[str, Any], sender: Sender, *, prefix: str = "",
        answered: bool = False,
    ) -> str:  # fmt: skip
        key = _key(prefix + name, self._messages)
        properties: dict[str, Any] = {"type": {"const": name}, "data": self._hoisted(data, key)}
        required = ["type", "data"] if data.get("required") else ["type"]
        if answered or name in _ANSWERS:
            properties["id"] = {"type": "integer", "description": "the client's number of a command; its answer repeats it"}
        if sender != "client":
            properties["n"] = {"type": "integer", "minimum": 1, "description": "number of the text message in its session"}
        message = {
            "name": name,
            "contentType": _JSON,
            "payload": {"type": "object", "properties": properties, "required": required},
        }
        if summary:
            message["summary"] = summary
        if "id" in properties:
            message["correlationId"] = {"location": "$message.payload#/id"}
        self._messages[key] = message
        return key

    def _packet(self) -> None:
        self._messages["packet"] = {
            "name": "packet",
            "title": "One frame of one track",
            "summary": "A binary message: a MessagePack array of eight fields; later versions may append fields.",
            "contentType": "application/msgpack",
            "payload": {"type": "array", "items": _PACKET_FIELDS, "minItems": len(_PACKET_FIELDS)},
        }

    def _operation(
        self, key: str, action: Literal["send", "receive"], messages: Iterable[str], summary: str, reply: Sequence[str] = ()
    ) -> None:
        operation: dict[str, Any] = {"action": action, **_on_channel(messages)}
        if summary:
            operation["summary"] = summary
        if reply:
            operation["reply"] = _on_channel(reply)
        self._operations[key] = operation

    def _hoisted(self, schema: Mapping[str, Any], owner: str) -> Any:
        """Rewrite `schema` to draft 7 and move its `$defs` to the document's schemas, where a `$ref` of AsyncAPI looks."""
        names = {name: _key(f"{owner}.{name}", self._schemas) for name in schema.get("$defs", {})}
        for name, key in names.items():
            self._schemas[key] = _draft_7(schema["$defs"][name], names)
        return _draft_7({key: value for key, value in schema.items() if key != "$defs"}, names)


def _schema_of(data: type) -> dict[str, Any]:
    (top,), components = msgspec.json.schema_components((data,), ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components.pop(str(top["$ref"]).rpartition("/")[2]) if components else top
    schema.pop("title", None)
    return schema | ({"$defs": components} if components else {})


def _draft_7(node: Any, names: Mapping[str, str]) -> Any:
    """Rewrite JSON Schema 2020-12 to draft 7, for the keywords that our schemas use."""
    if isinstance(node, list):
        return [_draft_7(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, Any] = {}
    renamed = {"prefixItems": "items", "items": "additionalItems"} if "prefixItems" in node else {}
    key: str
    for key, value in node.items():
        if key == "$ref":
            name = str(value).rpartition("/")[2]
            result["$ref"] = f"#/components/schemas/{names[name]}"
        elif key in ("const", "enum", "default", "examples"):  # values, not schemas
            result[key] = value
        elif key in ("properties", "patternProperties"):
            result[key] = {name: _draft_7(inner, names) for name, inner in value.items()}
        else:
            result[renamed.get(key, key)] = _draft_7(value, names)
    return result


def _key(name: str, taken: Mapping[str, Any]) -> str:
    """Return `name` as a valid AsyncAPI key that is not in `taken`."""
    plain = key = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    number = 2
    while key in taken:
        key, number = f"{plain}-{number}", number + 1
    return key


def _on_channel(messages: Iterable[str]) -> dict[str, Any]:
    return {"channel": _ref("channels", _CHANNEL), "messages": [_ref("channels", _CHANNEL, "messages", m) for m in messages]}


def _ref(*path: str) -> dict[str, str]:
    return {"$ref": "#/" + "/".join(path)}


_QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "video": {"type": "string", "description": "codecs that the client decodes, best first, or none", "default": "jpeg"},
        "audio": {"type": "string", "description": "audio codecs, best first, or none", "default": "pcm_s16le"},
        "role": {"type": "string", "enum": ["control", "viewer"], "default": "control"},
        "model": {"type": "string", "description": "name of the served model; any other name gets 404"},
        "token": {"type": "string"},
        "resume": {"type": "string", "description": "resume token of the session that lost this client"},
        "after": {"type": "integer", "description": "`n` of the last message that the client received", "default": 1},
        "feedback": {"type": "string", "enum": ["1"], "description": "the client will send `reactor.feedback`"},
        "cadence": {"type": "string", "enum": ["1"], "description": "the client understands `reactor.cadence`"},
        "follow": {"type": "string", "enum": ["1"], "description": "the client understands `reactor.admitted` of a gate"},
        "refusals": {"type": "string", "enum": ["bye"], "description": "refuse inside the WebSocket, with `reactor.bye`"},
        "paused": {"type": "string", "enum": ["1"], "description": "no video before `reactor.video` asks for it"},
        "beat": {"type": "string", "enum": ["1"], "description": "send `reactor.beat` when nothing else was sent"},
    },
    "patternProperties": {
        r"^video\.": {"type": "string", "description": "as `video`, for the output video track named behind the dot"},
    },
}

_PACKET_FIELDS: list[dict[str, Any]] = [
    {"type": "integer", "title": "track", "description": "index of the track in the welcome"},
    {"type": "integer", "title": "seq", "description": "number of the frame in its track, from 0; a gap is a dropped frame"},
    {"type": "integer", "title": "pts_us", "description": "presentation time in microseconds"},
    {"type": "integer", "title": "flags", "description": "bit 0: keyframe"},
    {"type": ["integer", "null"], "title": "command", "description": "id of the newest command applied before it was made"},
    {"type": "integer", "title": "step", "description": "number of the model step that made it"},
    {"type": "object", "title": "meta", "description": "receivers ignore keys that they do not know"},
    {"type": "string", "format": "binary", "title": "payload", "description": "the encoded frame (MessagePack bin)"},
]
