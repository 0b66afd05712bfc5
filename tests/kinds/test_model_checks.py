"""What is wrong with a model's class is found before its load, and `reactor doctor` finds the same."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress

import pytest

from reactor_trio.cli.doctor.project_checks import check_manifest, check_model
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import ModelFailed
from reactor_trio.interface import ReactorModel
from reactor_trio.kinds.model_checks import config_doubts
from reactor_trio.offline import render
from reactor_trio.server.serve import serve
from reactor_trio.testing import PipelineExecutor, open_server

NUMBERS = itertools.count()

HEAD = """
import numpy as np
from reactor_trio.interface import (
    DistributedPipeline, InputState, ModelMessage, Output, ReactorModel, ReactorPipeline, Video, VideoModel, event
)

class Loaded:
    def load(self, config):
        raise OSError("it was loaded")
"""
TRACK = """
class Picture(Output):
    main_video: Video
"""

#: the author's file and line, which some messages end with
LINE = re.compile(r"(?: \(at .*checked_\d+\.py:\d+\))?$")

#: sources of models that cannot be served, and what is said of each
WRONG = {
    "no_generator": (TRACK + """
class Model(Loaded, ReactorPipeline):
    def inference(self):
        return np.zeros((4, 4, 3), np.uint8)
""", "there is no `yield` in Model.inference, so it makes no frames: yield each one, as in `yield frame`"),
    "no_inference": (TRACK + """
class Model(Loaded, ReactorPipeline):
    pass
""", "Model has no inference(): define it, with a `yield` for each frame"),
    "a_run_that_yields": (TRACK + """
class Model(Loaded, ReactorModel):
    async def run(self):
        yield np.zeros((4, 4, 3), np.uint8)
""", "Model.run must not yield: it emits frames, `await self.emit(output)`"),
    "no_start_session": (TRACK + """
class Model(VideoModel):
    def __init__(self):
        raise OSError("it was loaded")
""", "Model has no start_session(); define it, it serves one client"),
    "a_track_twice": (TRACK + """
from reactor_trio.interface import Audio

class Sound(Output):
    main_video: Audio

class Model(Loaded, ReactorPipeline):
    def inference(self):
        yield None
""", "Sound.main_video: also declared with another kind or rate"),
    "no_session": (TRACK + """
class Model(Loaded, ReactorPipeline):
    max_sessions = 0

    def inference(self):
        yield None
""", "Model.max_sessions must be a whole number above 0"),
    "half_a_buffer": (TRACK + """
class Model(Loaded, ReactorPipeline):
    buffer_size = 0.5

    def inference(self):
        yield None
""", "Model.buffer_size must be a whole number above 0"),
    "no_rate": (TRACK + """
class Model(Loaded, ReactorPipeline):
    fps = "fast"

    def inference(self):
        yield None
""", "Model.fps must be a finite number above 0, not 'fast'"),
    "too_many_ranks": (TRACK + """
class Model(Loaded, DistributedPipeline):
    ranks = 2
    max_sessions = 3

    def inference(self):
        yield None
""", "Model: a model on several ranks serves one session at a time, max_sessions asks for 3; start a server for each"),
}  # fmt: skip

PIPELINE = """
class Model(ReactorPipeline):
    def inference(self):
        while True:
            yield None
"""
#: the author's file and line, which some messages end with
LINE = re.compile(r"(?: \(at .*checked_\d+\.py:\d+\))?$")

#: sources of models that are served, and what is doubtful in each
DOUBTFUL = {
    "no_tracks": (PIPELINE, "Model has no tracks, so its viewers see and hear nothing"),
    "a_state_that_no_model_uses": (TRACK + """
class Base(InputState):
    level: int = 0

class Look(Base):
    colour: int = 0
""" + PIPELINE, "no model uses the InputState Look, so no client can set it"),
    "a_key_that_no_keyboard_has": (TRACK + PIPELINE + """
    @event
    def key_arrowright(self): pass
""", "no key gives the command key_arrowright: no key has this name, so the page shows a button"),
}  # fmt: skip
#: the same, with nothing doubtful
FINE = {
    "a_state_of_another_model": TRACK + """
class Look(InputState):
    level: int = 0
""" + PIPELINE + """
class Other(ReactorPipeline):
    state: Look

    def inference(self):
        yield None
""",
    "numbers_that_are_properties": TRACK + """
class Model(ReactorPipeline):
    fps = property(lambda self: 5)
    max_sessions = property(lambda self: 2)

    def inference(self):
        while True:
            yield None
""",
}  # fmt: skip


@pytest.fixture
def project(tmp_path):
    """Makes a project of a source and gives its manifest."""

    def make(source, runtime="port: 0"):
        module = f"checked_{next(NUMBERS)}"  # classes of an earlier module of one name may still be there
        (tmp_path / f"{module}.py").write_text(HEAD + source)
        (tmp_path / "reactor.yaml").write_text(f"model: {module}:Model\nname: checked\nruntime: {{{runtime}}}\n")
        manifest, found = check_manifest(tmp_path)
        assert found.verdict == "ok"
        return manifest

    return make


@pytest.mark.parametrize("name", WRONG)
def test_doctor_tells_it(project, name):
    source, told = WRONG[name]
    found = check_model(project(source))
    assert (found.verdict, LINE.sub("", found.text)) == ("problem", told)


@pytest.mark.parametrize("name", WRONG)
async def test_a_server_refuses_it_before_the_load(project, name):
    source, told = WRONG[name]
    manifest = project(source)
    with pytest.raises(ModelFailed, match=f"(?m)^checked: {re.escape(told)}{LINE.pattern}"):
        await serve(manifest)


@pytest.mark.parametrize("name", ["no_generator", "a_track_twice"])
async def test_so_does_whatever_else_loads_a_model(autojump_clock, project, name):
    source, told = WRONG[name]
    model = project(source).model
    for options in ({}, {"isolation": "process"}):
        with pytest.raises(ModelFailed, match=f"(?m)^Model: {re.escape(told)}{LINE.pattern}"):
            async with open_server(model, **options):
                pass
    with pytest.raises(TypeError, match=re.escape(told)):
        PipelineExecutor(model)
    with pytest.raises(ModelFailed, match=f"(?m)^Model: {re.escape(told)}{LINE.pattern}"):
        async with render(model, frames=1):
            pass


@pytest.mark.parametrize("name", DOUBTFUL)
async def test_what_is_only_doubtful_is_a_warning_of_both(autojump_clock, project, caplog, name):
    source, told = DOUBTFUL[name]
    manifest = project(source)
    found = check_model(manifest)
    assert found.verdict == "warning"
    assert re.search(f"; {re.escape(told)}{LINE.pattern}", found.text)
    async with open_server(manifest.model):
        pass
    (warned,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned.startswith(told)
    assert warned.endswith(f"; {found.remedy}")
    assert re.search(LINE.pattern, warned.removesuffix(f"; {found.remedy}").removeprefix(told))


@pytest.mark.parametrize("name", FINE)
async def test_what_is_meant_is_no_doubt(autojump_clock, project, caplog, name):
    manifest = project(FINE[name])
    assert check_model(manifest).verdict == "ok"
    async with open_server(manifest.model):
        pass
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


#: how a model reads its configuration, each with the key `width`
READS = {
    "by_key": "config['width']",
    "with_a_default": "config.get('width', 640)",
    "of_an_object": "SimpleNamespace(**config).width",
    "in_a_comprehension": "[config.get(key) for key in ('height', 'width')]",
}


@pytest.mark.parametrize("options", [{}, {"isolation": "process"}], ids=["thread", "process"])
@pytest.mark.parametrize("way", READS)
async def test_a_key_of_the_configuration_that_no_line_has_is_doubtful(autojump_clock, tmp_path, caplog, way, options):
    module = f"checked_{next(NUMBERS)}"
    source = f"{HEAD}from types import SimpleNamespace\n{TRACK}{PIPELINE}"
    source += f"    def load(self, config):\n        config.get('height')\n        {READS[way]}\n"
    (tmp_path / f"{module}.py").write_text(source)
    (tmp_path / "reactor.yaml").write_text(f"model: {module}:Model\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text("widht: 3\nelsewhere: 4\nheight: 5\n")
    manifest = load_manifest(tmp_path)
    line = len(source.splitlines()) - 2
    told = f"did you mean width, which it reads (at {tmp_path / module}.py:{line})?"
    found = check_model(manifest)
    assert found.text.endswith("; config: widht is not in the model's file")
    assert found.remedy == told
    with suppress(ModelFailed):  # of the key that is missing
        async with open_server(manifest.model, config=manifest.config, **options):
            pass
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [f"config: widht is not in the model's file; {told}"]


async def test_a_key_that_is_read_is_no_doubt(project, caplog):
    model = project(f"{TRACK}{PIPELINE}    def load(self, config):\n        config['width'], config['widht']\n").model
    assert config_doubts(model, {"widht": 1}) == []
    assert config_doubts(model, {"wi": 1, "depth": 2}) == []


def test_ranks_for_a_model_of_one_process_are_a_mistake_of_the_manifest(project):
    found = check_model(project(TRACK + PIPELINE, "ranks: 2"))
    assert (found.verdict, found.text.partition(":")[0]) == ("problem", "runtime.ranks")


class RunAssigned(ReactorModel):
    def load(self, config):
        self.run = self.yielding

    async def yielding(self):
        yield


async def test_a_run_that_load_assigns_is_checked_before_the_server_listens(autojump_clock):
    with pytest.raises(ModelFailed, match=r"^RunAssigned: RunAssigned\.run must not yield"):
        async with open_server(RunAssigned):
            raise AssertionError("the server is up")
