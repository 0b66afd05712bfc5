"""A recorded session in virtual time: the lines of its timeline, the frames of its movie, and failures."""

from __future__ import annotations

import sys

import msgspec
import numpy as np
import pytest
import trio
from tests.support.colour_chart import COLOURS, SIZES, chart, furthest, means
from tests.support.models import Picture
from tests.support.recording_streams import lines, look

from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.interface import (
    Audio,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
    session_ended,
)
from reactor_trio.offline.recorded_session import read_recording
from reactor_trio.recording import Recorder
from reactor_trio.testing import open_server


class Hello(ModelMessage):
    text: str


class Painted(InputState):
    level: int = InputField(default=32, ge=0, le=255)
    image: UploadedFile | None = None


class Painter(ReactorPipeline):
    """Yields pictures of the grey level that was set, 320x240 until `grow` makes them larger."""

    state: Painted
    output: Picture

    def load(self, config):
        self.size = (240, 320)

    @event
    def grow(self, secret: str = ""):
        self.size = (480, 640)

    @event
    async def greet(self, text: str):
        if text == "nobody":
            raise CommandError("rude", "say whom")
        await self.send(Hello(text=text))

    def inference(self):
        self.size = (240, 320)
        while True:
            yield Picture(main_video=np.full((*self.size, 3), self.state.level, np.uint8))


def the_film(folder, number=0):
    return sorted(path for path in folder.iterdir() if path.suffix == ".mp4")[number]


def timeline(folder):
    (path,) = folder.glob("*.jsonl")
    return lines(path)


async def test_the_timeline_has_each_command_with_its_step_and_the_film_each_frame(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.command("set_level", level=160)
            await client.take(1)
            await client.command("greet", text="you")
            with pytest.raises(CommandError):
                await client.command("greet", text="nobody")
            with pytest.raises(CommandError):
                await client.command("set_level", level=300)
            seen = await client.take(2)
        await server.wait_left(client)
        session, *rest = timeline(tmp_path)
        assert session["session_id"] == client.session_id
        assert session["schema"] == server.runtime.session_manager.loaded.described.schema
        assert [track["name"] for track in session["tracks"]] == ["main_video"]
        assert session["run"]["versions"]["numpy"] == np.__version__
        assert ("torch" in session["run"]["versions"]) == ("torch" in sys.modules)
        assert [(line["type"], line.get("name")) for line in rest if line["type"] not in ("track", "frames")] == [
            ("file", None), ("command", "set_level"), ("message", "hello"), ("command", "greet"), ("command", "greet"),
            ("command", "set_level"), ("end", None),
        ]  # fmt: skip
        level, greet, rude, wrong = (line for line in rest if line["type"] == "command")
        assert (level["id"], level["arguments"], level["step"]) == (1, {"level": 160}, 2)
        assert (greet["arguments"], greet["step"]) == ({"text": "you"}, 3)
        assert (rude["code"], rude["message"]) == ("rude", "say whom")
        assert "step" not in rude
        assert (wrong["arguments"], wrong["code"]) == ({"level": 300}, "invalid_command")
        assert next(line for line in rest if line["type"] == "message")["data"] == {"text": "you"}
        end = rest[-1]
        assert (end["reason"], end["left_out"]) == ("client_left", {})
        film = look(the_film(tmp_path))
        assert film.codecs == ["h264"]  # although the client takes raw pictures
        # The client saw two frames before the level was set, and the others after it.
        assert end["frames"] == {"main_video": len(film.times[0])}
        assert len(film.times[0]) >= seen[-1].seq + 1
        assert film.grays()[:5] == [0, 0, 8, 8, 8]
        assert film.times[0][:5] == [0, 0.25, 0.5, 0.75, 1.0]
        assert server.runtime.metrics.drops() == {}


async def test_times_are_seconds_of_the_session(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        await trio.sleep(100)
        async with server.connect() as client:
            await trio.sleep(10)
            await client.command("set_level", level=100)
            at = trio.current_time() - server.sessions[0].began
        await server.wait_left(client)
    assert next(line["t"] for line in timeline(tmp_path) if line["type"] == "command") == at
    assert next(line["t"] for line in timeline(tmp_path) if line["type"] == "file") == 0.25


class SaysLast(Painter):
    @session_ended
    async def say_last(self):
        await self.send(Hello(text="last"))


@pytest.mark.parametrize("reason", ["client_left", "expired"])
async def test_what_the_model_says_after_a_long_last_step_is_recorded(tmp_path, autojump_clock, reason):
    """The clients have their goodbye by then."""
    limits = {"session_length": 10} if reason == "expired" else {}
    async with open_server(SaysLast, step_cost=[0.25, 50], record=str(tmp_path), limits=limits) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep_until(12)
            if reason == "client_left":
                await client.close()
        await server.wait_left(client)
        await server.sessions[0].ended.wait()
    *_, message, end = (line for line in timeline(tmp_path) if line["type"] != "frames")
    assert (message["data"], end["reason"]) == ({"text": "last"}, reason)


async def test_a_new_size_is_a_new_file(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.command("grow")
            await client.take(3)
        await server.wait_left(client)
    files = [line for line in timeline(tmp_path) if line["type"] == "file"]
    assert [(line["tracks"][0]["width"], line["tracks"][0]["height"]) for line in files] == [(320, 240), (640, 480)]
    assert files[1]["file"].endswith("-2.mp4")
    assert [look(tmp_path / line["file"]).pictures[0][0].shape for line in files] == [(240, 320, 3), (480, 640, 3)]


class Chart(ReactorPipeline):
    """Yields a chart of colours in three sizes, each twice."""

    output: Picture

    def inference(self):
        for size in SIZES:
            picture = chart(*size)
            yield Picture(main_video=picture)
            yield Picture(main_video=picture)


async def test_a_film_has_the_colours_of_the_model(tmp_path, autojump_clock):
    """H.264 as players without knowledge of our wire read it: by the tags in the film."""
    async with open_server(Chart, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(6)
        await server.wait_left(client)
    films = [tmp_path / line["file"] for line in timeline(tmp_path) if line["type"] == "file"]
    films = [look(film) for film in films]
    assert [(film.codecs, film.pictures[0][-1].shape) for film in films] == [(["h264"], (h, w, 3)) for w, h in SIZES]
    for film in films:
        assert furthest(means(film.pictures[0][-1]), np.array(COLOURS)) <= 3


async def test_superseded_commands_are_marked(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=1.0, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(1)
            async with trio.open_nursery() as nursery:
                for level in (1, 2, 3):
                    nursery.start_soon(lambda level=level: client.command("set_level", level=level))
        await server.wait_left(client)
    commands = [line for line in timeline(tmp_path) if line["type"] == "command"]
    assert {line["step"] for line in commands} == {commands[0]["step"]}
    assert [line.get("superseded", False) for line in commands] == [True, True, False]


async def test_the_timeline_contains_no_token_and_of_an_upload_only_its_facts(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            upload = await client.upload(b"precious bytes", name="cat.png")
            await client.command("set_image", image=upload)
            tokens = [value for key, value in vars_of(client.welcome).items() if key.endswith("_token") and value]
        await server.wait_left(client)
    (path,) = tmp_path.glob("*.jsonl")
    text = path.read_text()
    assert len(tokens) >= 1
    assert not [token for token in tokens if token in text]
    assert "precious" not in text
    (line,) = (line for line in timeline(tmp_path) if line["type"] == "upload")
    assert (line["name"], line["size"], line["id"]) == ("cat.png", 14, upload.upload_id)
    (command,) = (line for line in timeline(tmp_path) if line["type"] == "command")
    named = {"upload_id": upload.upload_id, "name": "cat.png", "mime_type": "image/png", "size": 14}
    assert command["arguments"] == {"image": named}


def vars_of(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_each_session_has_files_of_its_own_complete_before_the_next_begins(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as first:
            async with trio.open_nursery() as nursery:

                async def second():
                    async with server.connect() as client:
                        ended = next(tmp_path.glob(f"*{first.session_id}.jsonl"))
                        assert lines(ended)[-1]["type"] == "end"
                        await client.take(2)

                nursery.start_soon(second)
                await first.take(2)
                await first.vanish()
    assert len(list(tmp_path.glob("*.mp4"))) == len(list(tmp_path.glob("*.jsonl"))) == 2


class Boom(Painter):
    def inference(self):
        yield Picture(main_video=np.zeros((240, 320, 3), np.uint8))
        raise ValueError("boom")


async def test_the_end_has_the_reason_of_the_session(tmp_path, autojump_clock):
    async with open_server(Boom, step_cost=0.25, record=str(tmp_path)) as server:
        with pytest.raises(ValueError, match="boom"):
            async with server.connect() as client:
                await client.take(5)
        await server.wait_left(client)
    end = timeline(tmp_path)[-1]
    assert (end["reason"], end["frames"]) == ("model_error", {"main_video": 1})


class Both(Output):
    main_video: Video
    sound: Audio


class Singer(ReactorPipeline):
    output: Both

    def inference(self):
        while True:
            yield Both(main_video=np.zeros((240, 320, 3), np.uint8), sound=np.full((1, 12_000), 9000, np.int16))


async def test_sound_is_recorded_too(tmp_path, autojump_clock):
    async with open_server(Singer, step_cost=0.2, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(8)
        await server.wait_left(client)
    film = look(the_film(tmp_path))
    assert film.codecs[1] == "aac"
    assert len(film.sound) / film.rate == pytest.approx(len(film.times[0]) * 0.25, abs=0.06)
    assert film.times[0][:3] == [0, 0.25, 0.5]


async def test_a_disk_that_fails_ends_the_recording_and_not_the_session(tmp_path, autojump_clock, caplog, monkeypatch):
    whole = Recorder.write
    writes = []

    def write(self):
        writes.append(self)
        if len(writes) == 4:
            monkeypatch.setattr(self._series, "add", full)
        whole(self)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Recorder, "write", write)
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            assert len(await client.take(10)) == 10
        await server.wait_left(client)
    (entry,) = (entry for entry in caplog.records if entry.levelname == "ERROR")
    assert entry.getMessage().endswith("ended, the session goes on: No space left on device")
    assert timeline(tmp_path)[-1]["failure"] == "No space left on device"
    assert server.runtime.metrics.drops()["recording", "failed"] > 0


async def test_a_folder_that_disappeared_ends_only_the_recording(tmp_path, autojump_clock, caplog):
    folder = tmp_path / "films"
    async with open_server(Painter, step_cost=0.25, record=str(folder)) as server:
        folder.rmdir()
        async with server.connect() as client:
            await client.command("set_level", level=9)
            await client.take(3)
    (entry,) = (entry for entry in caplog.records if entry.levelname == "ERROR")
    assert "is not recorded: cannot record" in entry.getMessage()


async def test_a_disk_that_hangs_delays_the_next_client_by_at_most_the_bound(tmp_path, autojump_clock, caplog):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        sessions, recorders = server.runtime.session_manager, []
        services = sessions.loaded.services
        disk = services.disk

        async def hanging(function, *arguments, abandon_on_cancel=False):
            if getattr(function, "__name__", "") == "write":
                recorders.append(function.__self__)
                await trio.sleep_forever()
            return await disk(function, *arguments)

        services = msgspec.structs.replace(services, disk=hanging)
        sessions.model = msgspec.structs.replace(sessions.loaded, services=services)
        async with server.connect() as client:
            await client.take(2)
        left = trio.current_time()
        async with server.connect():
            assert 10 <= trio.current_time() - left < 11
        await server.wait_left(client)
    assert "the disk did not take the end of" in caplog.text
    for recorder in recorders:
        recorder.close(0, "done")


async def test_a_folder_that_cannot_be_created_is_an_error_at_start(tmp_path, autojump_clock):
    (tmp_path / "file").write_text("")
    with pytest.raises(ManifestError, match=r"runtime\.record: .*file/films: Not a directory"):
        async with open_server(Painter, record=str(tmp_path / "file" / "films")):
            pass


async def test_without_pyav_recording_is_an_error_at_start(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr("reactor_trio.recording.containers.find_spec", lambda name: None)
    with pytest.raises(ManifestError, match=r'/TIME-SESSION\.mp4: recording needs PyAV, pip install "reactor-trio\['):
        async with open_server(Painter, record=str(tmp_path)):
            pass


async def test_the_recorder_takes_no_clients_slot_and_has_no_control(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path), queue=0) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            assert len(server.runtime.session_manager.clients) == 2
            assert len(await client.take(2)) == len(await viewer.take(2)) == 2
        await server.wait_left(client)


async def test_a_timeline_has_its_bytes_then_the_recording_ends_and_the_session_goes_on(tmp_path, autojump_clock, caplog):
    """A client that fills the disk with valid commands: its own recording ends, the other's does not."""
    most = 300_000
    async with open_server(
        Painter, step_cost=0.05, record=str(tmp_path), max_sessions=2, limits={"timeline_bytes": most}
    ) as server:
        async with server.connect() as quiet, server.connect() as loud:
            await quiet.take(1)
            await loud.take(3)
            for _ in range(12):
                await loud.command("grow", secret="x" * 50_000)
            await loud.command("set_level", level=160)
            await loud.take(2)
            await quiet.command("set_level", level=100)
        for client in (loud, quiet):
            await server.wait_left(client)
        (full,), (whole,) = (list(tmp_path.glob(f"*-{client.session_id}.jsonl")) for client in (loud, quiet))
        assert most < full.stat().st_size + 60_000
        assert full.stat().st_size < most + 1000, "the last line is not bounded by it"
        *_, end = lines(full)
        assert (end["reason"], end["failure"]) == (
            "client_left", f"its timeline has the {most} bytes that it may have (runtime.limits.timeline_bytes)"
        )  # fmt: skip
        applied = read_recording(full).commands
        assert {command.name for command in applied} == {"grow"}
        assert 0 < len(applied) < 12
        film = look(full.with_suffix(".mp4"))
        assert end["frames"] == {"main_video": len(film.times[0])}
        lost = server.runtime.metrics.drops()["recording", "timeline_full"]
        assert end["left_out"]["timeline_full"] == lost
        assert lost > 0
        assert "failure" not in lines(whole)[-1]
        assert [command.name for command in read_recording(whole).commands] == ["set_level"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"the recording {full.with_suffix('.mp4')} ended, the session goes on: {end['failure']}"
    ]


async def test_a_refused_command_costs_the_timeline_at_most_its_beginning(tmp_path, autojump_clock):
    async with open_server(Painter, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(1)
            for name, arguments in (
                ("set_level", {"level": "é" * 100_000}), ("no such" + "y" * 100_000, {}), ("set_level", {"level": "short"}),
            ):  # fmt: skip
                with pytest.raises(CommandError):
                    await client.command(name, **arguments)
        await server.wait_left(client)
    long, unknown, short = (line for line in timeline(tmp_path) if line["type"] == "command")
    assert (long["name"], long["code"], long["arguments"], long["size"]) == ("set_level", "invalid_command", None, 200_012)
    assert long["arguments_cut"] == '{"level":"' + "é" * 507
    assert (len(unknown["name"]), unknown["arguments"]) == (1000, {})
    assert len(unknown["message"]) == 1000
    assert (short["arguments"], "size" in short) == ({"level": "short"}, False)
