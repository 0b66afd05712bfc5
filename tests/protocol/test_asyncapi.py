"""The AsyncAPI 3 document of a model: valid by the official schema, and every reference has a target."""

from __future__ import annotations

import enum
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import jsonschema
import pytest

from reactor_trio.cli import main
from reactor_trio.client import Message
from reactor_trio.client.session_view import internals
from reactor_trio.connection.client_connection import _DATA
from reactor_trio.interface import (
    Audio,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    event,
)
from reactor_trio.protocol import PLAYBACK, asyncapi_document
from reactor_trio.testing import open_server

ROOT = Path(__file__).parents[2]
OFFICIAL = json.loads(gzip.decompress((Path(__file__).parent / "asyncapi-3.0.0.json.gz").read_bytes()))
VALIDATOR = jsonschema.Draft7Validator(OFFICIAL)


class Mode(enum.Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass
class Path2:
    points: list[Point]


class Picture(Output):
    main_video: Video
    sound: Audio


class Everything(InputState):
    level: float = InputField(default=1.0, ge=0.0, le=2.0, description="How bright")
    mode: Mode = Mode.DAY
    choice: Literal["a", "b"] = "a"
    maybe: Optional[Point] = None  # noqa: UP045
    pair: tuple[int, str] = InputField(default=(1, "a"))
    table: dict[str, list[Point]] = {}
    anything: Any = None


class Moved(ModelMessage):
    """Something moved."""

    to: Point
    note: str = MessageField(default="", description="free text")


class progress(ModelMessage):
    done: int


class Rich(ReactorPipeline):
    state: Everything

    @event
    def progress(self, path: Path2, speed: float = 1.0) -> None:
        """A command with the name of a message."""

    @event("go there / now")
    def oddly_named(self) -> None: ...

    @event("go there _ now")
    def oddly_named_too(self) -> None: ...

    def inference(self):
        yield None


class Bare(ReactorModel):
    output: Picture


def check(document):
    errors = [f"{list(e.absolute_path)}: {e.message[:200]}" for e in VALIDATOR.iter_errors(document)]
    assert errors == []
    for reference in references(document):
        place = document
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    for message in document["components"]["messages"].values():
        payload = {**message["payload"], "components": document["components"]}
        jsonschema.Draft7Validator.check_schema(payload)
    return document


def references(node):
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)


def valid(document, key, message) -> bool:
    payload = {**document["components"]["messages"][key]["payload"], "components": document["components"]}
    return jsonschema.Draft7Validator(payload).is_valid(message)


async def asked(model, path="/schema?format=asyncapi", **options):
    async with open_server(model, **options) as server:
        return server.http(path)


def test_the_official_schema_refuses_an_invalid_document():
    assert not VALIDATOR.is_valid({"asyncapi": "3.0.0", "info": {"title": "x"}})


@pytest.mark.parametrize("model", [Rich, Bare])
async def test_the_document_is_valid(autojump_clock, model):
    answer = await asked(model, name="my/model")
    assert (answer.status, answer.content_type) == (200, "application/json")
    document = check(json.loads(answer.body))
    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["title"] == "my/model"
    assert document["servers"] == {"default": {"host": "127.0.0.1", "protocol": "ws"}}


async def test_the_document_lists_messages_operations_and_tracks(autojump_clock):
    document = json.loads((await asked(Rich)).body)
    messages, operations = document["components"]["messages"], document["operations"]
    assert [key for key in messages if key.startswith("command.")] == [
        *(f"command.set_{field}" for field in ("level", "mode", "choice", "maybe", "pair", "table", "anything")),
        "command.progress", "command.go_there___now", "command.go_there___now-2",
    ]  # fmt: skip
    assert {key for key in messages if key.startswith("reactor.")} == {
        "reactor.queued", "reactor.admitted", "reactor.welcome", "reactor.ack", "reactor.error", "reactor.track",
        "reactor.state", "reactor.bye", "reactor.ending", "reactor.feedback", "reactor.keyframe", "reactor.video",
        "reactor.beat", "reactor.cadence", "reactor.transport", "reactor.pause", "reactor.step", "reactor.restart",
        "reactor.late", "reactor.rewind", "reactor.worlds", "reactor.moment", "reactor.save", "reactor.saved",
        "reactor.restore", "reactor.forget", "reactor.fork",
    }  # fmt: skip
    assert {"message.moved", "message.progress", "packet"} <= set(messages)
    assert set(document["channels"]["session"]["messages"]) == set(messages)
    assert operations["command.set_level"]["action"] == "receive"
    assert [reference["$ref"].rpartition("/")[2] for reference in operations["command.set_level"]["reply"]["messages"]] == [
        "reactor.ack", "reactor.error",
    ]  # fmt: skip
    assert (operations["runtime"]["action"], operations["client"]["action"]) == ("send", "receive")
    assert (operations["messages"]["action"], operations["frames.out"]["action"]) == ("send", "send")
    assert "frames.in" not in operations
    level = messages["command.set_level"]["payload"]["properties"]["data"]["properties"]["level"]
    assert level == {"type": "number", "minimum": 0.0, "maximum": 2.0, "default": 1.0, "description": "How bright"}


async def test_document_and_server_accept_and_refuse_the_same_commands(autojump_clock):
    document = json.loads((await asked(Rich)).body)
    good = [
        ("command.set_level", {"type": "set_level", "data": {"level": 0.5}, "id": 7}),
        ("command.set_maybe", {"type": "set_maybe", "data": {"maybe": {"x": 1}}}),
        ("command.set_pair", {"type": "set_pair", "data": {"pair": [1, "b"]}}),
        ("command.progress", {"type": "progress", "data": {"path": {"points": [{"x": 1, "y": 2}]}}}),
        ("command.go_there___now", {"type": "go there / now"}),
    ]
    bad = [
        ("command.set_level", {"type": "set_level", "data": {"level": 2.5}}),
        ("command.set_level", {"type": "set_level", "data": {}}),
        ("command.set_level", {"type": "set_mode", "data": {"level": 1}}),
        ("command.set_maybe", {"type": "set_maybe", "data": {"maybe": {}}}),
        ("command.set_pair", {"type": "set_pair", "data": {"pair": ["b", 1]}}),
        ("command.set_pair", {"type": "set_pair", "data": {"pair": [1, "b", 2]}}),
        ("command.progress", {"type": "progress", "data": {"path": {"points": [{"y": 2}]}}}),
    ]
    assert [valid(document, key, message) for key, message in good] == [True] * len(good)
    assert [valid(document, key, message) for key, message in bad] == [False] * len(bad)


async def test_every_text_of_a_session_fits_the_document(autojump_clock):

    class Talks(ReactorPipeline):
        state: Everything
        output: Picture

        @event
        async def move(self) -> None:
            await self.send(Moved(to=Point(1.0)))

        def inference(self):
            yield None

    async with open_server(Talks) as server:
        document = check(json.loads(server.http("/schema?format=asyncapi").body))
        async with server.connect() as client:
            texts = []
            protocol = internals(client).receiver.protocol
            receive = protocol.receive_text
            protocol.receive_text = lambda text, now: (texts.append(json.loads(text)), receive(text, now))[1]
            await client.command("move")
            message = await client.next_message()
            assert isinstance(message, Message)
            with pytest.raises(Exception, match="level"):
                await client.command("set_level", level=9)
    assert [text["type"] for text in texts] == ["moved", "reactor.ack", "reactor.error"]
    for text in texts:
        assert valid(document, text["type"] if "." in text["type"] else f"message.{text['type']}", text), text


def test_the_protocol_vectors_fit_the_document():
    vectors = json.loads((ROOT / "docs" / "reference" / "protocol-vectors.json").read_text(encoding="utf-8"))
    schema = {"name": "m", "protocol": 1, "tracks": [{"name": "v", "kind": "video", "direction": "in"}], "commands": [],
              "messages": []}  # fmt: skip
    document = check(asyncapi_document(schema, host="example.org", secure=True))
    assert document["servers"]["default"] == {"host": "example.org", "protocol": "wss"}
    assert document["operations"]["frames.in"]["action"] == "receive"
    seen = set()
    for vector in [*vectors["server_texts"]["exact"], *vectors["client_texts"]["exact"]]:
        if vector["type"].startswith("reactor."):
            assert valid(document, vector["type"], json.loads(vector["text"])), vector["name"]
            seen.add(vector["type"])
    assert seen == {key for key in document["components"]["messages"] if key.startswith("reactor.")}


def test_the_document_has_all_that_the_server_reads_of_the_runtimes_own_messages():
    document = asyncapi_document({"name": "m", "protocol": 1, "tracks": [], "commands": [], "messages": []}, host="h")
    for operation, decoded in (("client", _DATA), ("transport", PLAYBACK)):
        messages = document["operations"][operation]["messages"]
        assert {reference["$ref"].rpartition("/")[2] for reference in messages} == set(decoded)
    for key, data, fits in (
        ("reactor.feedback", {"track": 0, "seq": 1, "held_us": 0}, True),
        ("reactor.feedback", {"track": 0, "seq": 1, "held_us": None}, True),
        ("reactor.feedback", {"track": 0, "seq": 1, "held_us": -1}, False),
        ("reactor.video", {"video": ["h264"], "tracks": {"depth": ["none"]}}, True),
        ("reactor.video", {"video": []}, False),
        ("reactor.video", {"video": ["h264"], "tracks": {"depth": "none"}}, False),
        ("reactor.video", {"tracks": {"depth": ["none"]}}, False),
        ("reactor.pause", {"paused": True}, True),
        ("reactor.step", {"steps": 1000}, True),
        ("reactor.step", {"steps": 0}, False),
        ("reactor.restart", {"state": "fresh"}, True),
        ("reactor.restart", {"state": "old"}, False),
    ):
        assert valid(document, key, {"type": key, "data": data}) is fits, data


async def test_unknown_formats_are_refused(autojump_clock):
    assert (await asked(Bare, "/schema?format=openapi")).status == 400
    assert "commands" in json.loads((await asked(Bare, "/schema?format=json")).body)


async def test_the_scheme_is_the_server_s_own_or_that_of_its_proxy(autojump_clock):
    for settings, expected in (({}, ["ws", "ws", "wss"]), ({"tls": {"certfile": "of-the-server.pem"}}, ["wss"] * 3)):
        async with open_server(Bare, **settings) as server:
            seen = [
                json.loads(server.http("/schema?format=asyncapi", headers=headers).body)["servers"]["default"]["protocol"]
                for headers in ({}, {"X-Forwarded-Proto": "http"}, {"X-Forwarded-Proto": "https"})
            ]
        assert seen == expected


@pytest.mark.parametrize("example", ["gradient", "run_loop", "crafter"])
def test_the_command_line_writes_the_document(example, tmp_path):
    out = tmp_path / "document.json"
    assert main(["schema", "--path", str(ROOT / "examples" / example), "--format", "asyncapi", "--out", str(out)]) == 0
    document = check(json.loads(out.read_text(encoding="utf-8")))
    assert document["servers"]["default"]["host"] == "127.0.0.1:8080"
