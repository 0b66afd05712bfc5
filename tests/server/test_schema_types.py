"""`GET /schema?format=typescript` and `?format=python`: the types of the model that is served."""

from __future__ import annotations

import json

import pytest
from tests.golden.golden_model import Golden

from reactor_trio import typegen
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video
from reactor_trio.testing import open_server
from reactor_trio.typegen import LANGUAGES, types_of


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_server_writes_the_types_of_its_schema(autojump_clock, language):
    async with open_server(Golden, name="golden") as server:
        schema = json.loads(server.http("/schema").body)
        answer = server.http(f"/schema?format={language}")
    assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
    assert answer.body.decode() == types_of(schema, language)
    assert schema["schema_hash"] in answer.body.decode()


async def test_the_types_are_written_once(autojump_clock, monkeypatch):
    written = []
    monkeypatch.setattr(typegen, "types_of", lambda _schema, language: written.append(language) or language)
    async with open_server(Golden) as server:
        answers = [server.http(f"/schema?format={language}").body.decode() for language in LANGUAGES * 2]
    assert (answers, written) == ([*LANGUAGES] * 2, [*LANGUAGES])


async def test_another_format_is_refused_with_those_that_there_are(autojump_clock):
    async with open_server(Golden) as server:
        answer = server.http("/schema?format=rust")
    assert answer.status == 400
    assert answer.body == b"format=rust: expected json or about or asyncapi or typescript or python\n"


async def test_choices_that_are_no_json_by_themselves(autojump_clock):
    """The server has them as Python objects."""

    class Picture(Output):
        main_video: Video

    class Settings(InputState):
        size: tuple[int, int] = InputField(default=(1, 2), choices=[(1, 2), (3, 4)])
        rate: float | None = InputField(default=None, choices=[0.5, 1.0])

    class Sized(ReactorPipeline):
        state: Settings
        output: Picture

        def inference(self):
            yield None

    async with open_server(Sized) as server:
        text = server.http("/schema?format=typescript").body.decode()
        async with server.connect() as client:
            await client.command("set_rate", rate=0.5)
            await client.command("set_rate", rate=None)
            await client.command("set_size", size=[3, 4])
    assert "size: [1, 2] | [3, 4];" in text
    assert "rate: 0.5 | 1 | null;" in text
