"""`reactor render` and `reactor replay`: what they print, and their exit codes."""

from __future__ import annotations

import json
import re

import av
import pytest
import trio
import trio.testing
from tests.support.cli_doubles import without_links

from reactor_trio.cli import main
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.settings import Settings, WorldSettings
from reactor_trio.testing import open_server

MODEL = """\
import os, signal
import numpy as np
from reactor_trio.interface import InputState, Output, ReactorPipeline, Video, event

class Picture(Output):
    main_video: Video

class Settings(InputState):
    red: int = 0

class Pictures(ReactorPipeline):
    state: Settings
    output: Picture
    fps = 10

    def load(self, config):
        self.config = config

    @event
    def nudge(self, by: int):
        raise ValueError("do not touch")

    def inference(self):
        number = 0
        while number < self.config.get("steps", 1000):
            if number == self.config.get("fail_at"):
                raise RuntimeError("out of\\nideas")
            if number == self.config.get("signal_at"):
                os.kill(os.getpid(), signal.SIGINT)
            yield np.full((32, 32, 3), (self.state.red + self.config.get("more", 0)) % 256, np.uint8)
            number += 1
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pictures_model:Pictures\nname: pictures\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text("steps: 20\n")
    (tmp_path / "pictures_model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture
def reactor(project, monkeypatch, capsys):
    """Runs a command line in this process; returns code, stdout, stderr."""
    monkeypatch.setattr("reactor_trio.cli.render_command.configure_logging", lambda *_, **__: None)
    monkeypatch.chdir(project)

    def run(line):
        code = main(line.split())
        printed = capsys.readouterr()
        return code, printed.out, without_links(printed.err)

    return run


def frames_in(path):
    with av.open(str(path)) as film:
        return sum(1 for _ in film.decode(video=0))


def recorded(project):
    async def session():
        model = load_manifest(project).model
        async with open_server(model, config={"steps": 20}, step_cost=0.25, record=str(project / "films")) as server:
            async with server.connect() as client:
                await client.take(2)
                await client.command("set_red", red=90)
                await client.take(3)
            await server.wait_left(client)

    trio.run(session, clock=trio.testing.MockClock(autojump_threshold=0))
    (timeline,) = (project / "films").glob("*.jsonl")
    return timeline.relative_to(project)


def test_render_until_the_generator_ends_and_one_line_says_what_was_made(reactor, project):
    code, out, err = reactor("render --out film.mp4")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"film.mp4: 20 frames, 2\.00 s, made in \d+\.\d\d s \(\d+\.\d frames/s\)\n", out)
    assert frames_in(project / "film.mp4") == 20


def test_render_with_a_script_a_limit_a_rate_and_a_config(reactor, project):
    (project / "script.yaml").write_text("- {step: 1, name: set_red, arguments: {red: 3}}\n")
    code, out, _ = reactor("render --out pictures --script script.yaml --seconds 0.2 --fps 20 --set more=4")
    assert (code, out.partition(",")[0]) == (0, "pictures: 4 frames")
    with av.open(str(project / "pictures" / "main_video-000001.png")) as file:
        (frame,) = file.decode(video=0)
        assert frame.to_ndarray(format="rgb24")[0, 0, 0] == 7


def test_commands_that_were_not_reached_are_said(reactor, project):
    (project / "script.yaml").write_text("- {step: 90, name: set_red, arguments: {red: 3}}\n")
    code, _, err = reactor("render --out film.mp4 --script script.yaml --frames 3")
    assert (code, err) == (0, "reactor: warning: the film ended before 1 of the script's commands was due\n")


def test_a_model_that_fails_is_one_line_exit_code_1_and_the_film_up_to_there(reactor, project):
    code, out, err = reactor("render --out film.mp4 --set fail_at=7")
    assert (code, out) == (1, "")
    assert err == (
        "reactor: pictures: step 7 raised RuntimeError: out of ideas; film.mp4 has the 7 frames before that "
        "(pictures_model.py:27)\n"
    )
    assert frames_in(project / "film.mp4") == 7


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("- {step: 0, name: set_blue}\n", 2, "script.yaml:1: set_blue: unknown command 'set_blue'; this model takes: "),
        ("- {step: 0\n", 2, "script.yaml:2: expected"),
        ("- {step: 2, name: nudge, arguments: {by: 1}}\n", 1, "script.yaml:1: the handler of nudge raised ValueError"),
    ],
)  # fmt: skip
def test_a_script_that_cannot_be_carried_out_is_one_line(reactor, project, script, code, said):
    (project / "script.yaml").write_text(script)
    found, _, err = reactor("render --out film.mp4 --script script.yaml")
    assert found == code
    assert err.startswith(f"reactor: {said}"), err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("render --out film.gif", "cannot record film.gif: name a file that ends in .mp4, .mkv, .webm"),
        ("render --out film.mp4 --frames 0", "argument --frames: '0' is not a whole number above 0"),
        ("render --out film.mp4 --path none", "reactor.yaml: no such file"),
        ("replay none.jsonl", "none.jsonl: cannot be read: No such file or directory"),
    ],
)
def test_mistakes_exit_with_2(reactor, line, said):
    code, _, err = reactor(line)
    assert code == 2
    assert said in err


def test_replay_and_verify(reactor, project):
    timeline = recorded(project)
    code, out, err = reactor(f"replay {timeline} --verify --out again.mp4")
    assert (code, err) == (0, "")
    made = sum('"frames"' in line for line in (project / timeline).read_text().splitlines()[:-1])
    assert out.splitlines()[0].startswith(f"again.mp4: {made} frames")
    assert out.splitlines()[1] == f"{made} frames, all the same"
    assert frames_in(project / "again.mp4") == made


def test_a_replay_that_differs_exits_with_1_and_names_the_frame(reactor, project):
    timeline = recorded(project)
    code, _, err = reactor(f"replay {timeline} --verify --set more=1")
    assert code == 1
    warning, difference = err.splitlines()
    assert warning == "reactor: warning: the model's config is not the one that it was recorded with"
    assert "frames differ, first step 0, track main_video, frame 0: its content differs" in difference


def test_a_session_that_began_at_a_saved_world_needs_the_file(reactor, project):
    model = MODEL.replace("import InputState,", "import Saves, InputState,").replace("fps = 10", "fps, saves = 10, Saves()")
    (project / "pictures_model.py").write_text(model)
    worlds = WorldSettings(store=str(project / "store"))
    settings = Settings(record=str(project / "films"), worlds=worlds, max_sessions=2)

    async def sessions():
        model = load_manifest(project).model
        async with open_server(model, config={"steps": 20}, settings=settings) as server, server.connect() as first:
            await first.command("set_red", red=90)
            fork = await first.worlds.fork()
            await trio.sleep(1)
            async with server.connect(fork=fork.token) as second:
                await second.take(3)

    trio.run(sessions, clock=trio.testing.MockClock(autojump_threshold=0))
    timelines = [path.relative_to(project) for path in (project / "films").glob("*.jsonl")]
    (timeline,) = [path for path in timelines if "begun_from" in (project / path).read_text()]
    code, out, err = reactor(f"replay {timeline} --verify")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{timeline}:1: reactor.restore: the file of the saved world of step" in err
    code, out, err = reactor(f"replay {timeline} --verify --world store")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].endswith("frames, all the same")


def test_a_recording_without_digests_cannot_be_verified_and_replays(reactor, project):
    timeline = recorded(project)
    path = project / timeline
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines() if json.loads(line)["type"] != "frames"))
    code, _, err = reactor(f"replay {timeline} --verify")
    assert code == 2
    said = "has no digests of its frames, so they cannot be compared; replay it without --verify"
    assert err == f"reactor: {timeline} {said}\n"
    assert reactor(f"replay {timeline}")[0] == 0


@pytest.mark.parametrize(("limit", "exit_code"), [("", 0), ("--frames 100000", 130)])
def test_ctrl_c_ends_the_film_whole(reactor, project, limit, exit_code):
    code, out, err = reactor(f"render --out film.mkv --set signal_at=30 --set steps=1000000 {limit}")
    assert (code, err) == (exit_code, "")
    made = int(re.fullmatch(r"film.mkv: (\d+) frames, .*; stopped\n", out)[1])
    assert made == frames_in(project / "film.mkv") >= 20
