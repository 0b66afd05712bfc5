"""What a server tells of a model to people: `about` in /schema and in the welcome, and the pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.gate_kit import open_gate

from reactor_trio.configuration.introduction import IntroductionKeys, read_introduction
from reactor_trio.configuration.settings import AuthSettings
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import answer_to, request_to

PNG = b"\x89PNG\r\n\x1a\n" + b"picture"


class Picture(Output):
    main_video: Video


class Settings(InputState):
    level: float = InputField(default=0.5, ge=0, le=1, group="Light", unit="cd")


class Lamp(ReactorPipeline):
    """A lamp."""

    state: Settings
    output: Picture

    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


@pytest.fixture
def introduction(tmp_path):
    (tmp_path / "lamp.png").write_bytes(PNG)
    examples = [{"name": "Bright", "picture": "lamp.png", "values": {"level": 1.0}}]
    keys = IntroductionKeys(title="Lamp", thumbnail="lamp.png", examples=examples)
    return read_introduction(tmp_path / "reactor.yaml", keys)


async def test_the_schema_and_the_welcome_have_the_introduction(autojump_clock, introduction):
    async with open_server(Lamp) as plain:
        bare = json.loads(plain.http("/schema").body)
    async with open_server(Lamp, introduction=introduction) as server, server.connect() as client:
        schema = json.loads(server.http("/schema").body)
        assert client.schema == schema
    assert schema["schema_hash"] == bare["schema_hash"]
    settings = {"level": {"group": "Light", "advanced": False, "unit": "cd"}}
    rest = {"description": "A lamp.", "author": None, "hint": None, "hints": {}, "accent": None, "mark": None, "links": [],
            "settings": settings}
    assert bare["about"] == {"title": None, "thumbnail": None, "examples": [], **rest}
    examples = [{"name": "Bright", "picture": "pictures/lamp.png", "values": {"level": 1.0}}]
    assert schema["about"] == {"title": "Lamp", "thumbnail": "pictures/lamp.png", "examples": examples, **rest}


async def test_a_picture_is_there_for_everyone_who_may_load_the_page(autojump_clock, introduction):
    async with open_server(Lamp, introduction=introduction, auth=AuthSettings("a-token-of-the-tests")) as server:
        assert server.http("/schema").status == 401
        found = server.http("/pictures/lamp.png")
        assert (found.status, found.content_type, found.body) == (200, "image/png", PNG)
        assert found.headers["cache-control"] == "no-cache"
        assert found.headers["content-security-policy"] == "default-src 'none'"
        again = server.http("/pictures/lamp.png", headers={"If-None-Match": found.headers["etag"]})
        assert (again.status, again.body, again.headers["content-length"]) == (304, b"", str(len(PNG)))


@pytest.mark.parametrize("path", ["/pictures/reactor.yaml", "/pictures/../reactor.yaml", "/pictures/a/lamp.png"])
async def test_no_other_file_is(autojump_clock, introduction, path):
    async with open_server(Lamp, introduction=introduction) as server:
        assert server.http(path).status == 404


async def test_a_gate_has_the_pictures_too(autojump_clock, introduction):
    async with open_gate(pictures=introduction.pictures) as gate:
        found = answer_to(gate.site, request_to("/pictures/lamp.png"))
        assert (found.status, found.body) == (200, PNG)
