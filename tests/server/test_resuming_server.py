"""Coming back, and what else a server does meanwhile: uploads, recordings, a drain of the process; and over real sockets."""

from __future__ import annotations

import json
from functools import partial

import anyio
import msgspec
import numpy as np
import pytest
import trio

from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.session_view import internals
from reactor_trio.configuration.settings import Settings
from reactor_trio.interface import Output, ReactorPipeline, UploadedFile, Video, event, file_uploaded
from reactor_trio.server.serve import serve
from reactor_trio.testing import Link, open_server


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 20

    def __init__(self) -> None:
        self.heard: list[object] = []

    @event
    def add(self, value: int) -> int:
        self.heard.append(value)
        return value

    @event
    def use(self, file: UploadedFile) -> int:
        self.heard.append(f"use {file.name}")
        return file.size

    @file_uploaded
    def uploaded(self, file: UploadedFile) -> None:
        self.heard.append(f"uploaded {file.name}")

    def inference(self):
        number = 0
        while True:
            yield np.full((64, 64, 3), number % 200, np.uint8)
            number += 1


async def test_files_stay_and_an_upload_meanwhile_keeps_its_place(autojump_clock):
    async with open_server(Model, step_cost=0.05, resume_window=30) as server:
        async with server.connect() as client:
            await client.upload(b"abc", name="first.bin")
            token = internals(client).receiver.protocol.welcome.upload_token
            await client.vanish()
        target = "http://127.0.0.1/uploads?name=second.bin"
        headers = {"authorization": f"Bearer {token}", "content-length": "2"}

        async def body():
            yield b"de"

        status, answer, _refusal = await server._post(target, headers, body())
        assert status == 201
        await trio.sleep(3)
        async with server.connect(resume=client.resume_token) as again:
            upload = msgspec.json.decode(answer)["upload_id"]
            assert await again.command("use", file={"upload_id": upload}) == 2
            assert server.model.heard == ["uploaded first.bin", "uploaded second.bin", "use second.bin"]


async def test_a_recording_goes_on_with_its_session_and_keeps_no_world_running(tmp_path, autojump_clock):
    pytest.importorskip("av")
    async with open_server(Model, step_cost=0.05, resume_window=30, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(10)
            await client.vanish()
        await trio.sleep(0.1)
        handed = server.runtime.metrics._handed
        await trio.sleep(10)
        assert server.runtime.metrics._handed == handed
        async with server.connect(resume=client.resume_token) as again:
            await again.command("add", value=1)
            await again.take(10)
            await again.close()
    (timeline,) = tmp_path.glob("*.jsonl")
    lines = [json.loads(line) for line in timeline.read_text().splitlines()]
    assert [line["type"] for line in lines if line["type"] in ("session", "file", "command", "end")] == [
        "session", "file", "command", "end",
    ]  # fmt: skip
    assert lines[-1]["reason"] == "client_left"
    assert 19 <= lines[-1]["frames"]["main_video"] <= 22
    assert client.resume_token not in timeline.read_text()


@pytest.mark.parametrize(("window", "grace", "farewell"), [(0, 10, 5), (30, 10, 5), (0, 0, 0.1)])
async def test_the_next_one_comes_when_the_goodbye_was_said(autojump_clock, window, grace, farewell):
    """Also where the session is not the connection's: a client that does not take it is waited for as long."""
    limits = {"session_length": 1}
    async with open_server(Model, step_cost=0.05, resume_window=window, drain_grace=grace, limits=limits) as server:
        async with server.connect(link=Link(bits_per_second=1_000_000)) as first:
            await first.take(2)
            first.link.stall()
            async with server.connect():
                assert trio.current_time() == pytest.approx(1 + farewell)


async def come_back(url: str, drops: int) -> None:
    """Over sockets that are reset in the middle of what comes."""
    token, last, sent, answered = None, 1, 0, []
    for drop in range(drops + 1):
        query = "" if token is None else f"&resume={token}&after={last}"
        stream = await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2].strip("/")))
        transport = await open_websocket(f"ws://127.0.0.1/ws?video=raw{query}", stream=stream)
        welcome = json.loads(await transport.receive())
        assert welcome["type"] == "reactor.welcome"
        data = welcome["data"]
        assert (data["resumed"], data["missed"]) == (token is not None, 0)
        token = data["resume_token"]
        for value in range(data["received"], sent):  # the last one may have been lost
            await transport.send(json.dumps({"type": "add", "data": {"value": value}, "id": value}))
        pictures = 0
        while pictures < 3 or (drop == drops and len(answered) < sent):
            message = await transport.receive()
            if isinstance(message, str):
                text = json.loads(message)
                assert text["n"] == last + 1
                last = text["n"]
                if "id" in text:
                    answered.append(text["id"])
            else:
                pictures += 1
        if drop < drops:
            await transport.send(json.dumps({"type": "add", "data": {"value": sent}, "id": sent}))
            sent += 1
            await anyio.aclose_forcefully(stream)
        else:
            await transport.aclose()
            await anyio.aclose_forcefully(stream)
    assert answered == list(range(sent))


async def test_over_sockets_that_are_reset_nothing_is_lost():
    drain = trio.Event()
    async with trio.open_nursery() as nursery:
        settings = Settings(resume_window=10, port=0)
        with trio.fail_after(120):
            serving = await nursery.start(partial(_serve, settings, drain))
            await come_back(serving.url, 10)
            while serving.runtime.sessions:
                await serving.runtime.session_manager.left.wait()
        assert serving.runtime.model.heard == list(range(10))
        assert serving.runtime.session_manager.away == []
        drain.set()


async def _serve(settings: Settings, drain: trio.Event, task_status) -> None:
    await serve(Model, settings=settings, drain=drain, task_status=task_status)
