"""Mistakes of a first day with `RuntimeHost`, `serve`, `Settings` and `run`, and variants of those in `test_first_day`."""

from __future__ import annotations

import traceback
from pathlib import Path

import msgspec
import numpy as np
import pytest
import trio

from reactor_trio import InputState, ReactorPipeline, RuntimeHost, event, run, serve
from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.errors import DeclarationError, ModelFailed, OutputError, ReactorError
from reactor_trio.interface.messages import ModelMessage
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.output_mistakes import mistake

PAGE = "docs/reference/errors.md"


class Good(ReactorPipeline):
    def inference(self):
        yield np.zeros((8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"settings": {"isolaton": "process"}},
            "settings: expected Settings, got dict (isolaton: unknown key; did you mean isolation?): give "
            "settings=Settings(isolation='process'), of reactor_trio.configuration.settings",
        ),
        (
            {"settings": {"isolaton": 1}},
            "settings: expected Settings, got dict (isolaton: unknown key; did you mean isolation?): give "
            "settings=Settings(isolation='process'), of reactor_trio.configuration.settings",
        ),
        (
            {"isolation": "process"},
            "RuntimeHost: unknown option isolation; did you mean settings=Settings(isolation='process'), of "
            "reactor_trio.configuration.settings?",
        ),
        (
            {"isolaton": "process"},
            "RuntimeHost: unknown option isolaton; did you mean settings=Settings(isolation='process'), of "
            "reactor_trio.configuration.settings?",
        ),
        ({"confg": {}}, "RuntimeHost: unknown option confg; did you mean config?"),
    ],
    ids=["41", "41 value", "41b", "41b typo", "option"],
)
def test_41_settings_that_are_no_settings(given, words):
    with pytest.raises(ReactorError) as raised:
        RuntimeHost(Good, **given)
    assert str(raised.value) == words
    assert raised.value.__notes__ == [f"{PAGE}#wrong-use"]


def test_41d_a_setting_of_the_constructor():
    with pytest.raises(TypeError) as raised:
        Settings(isolaton=1)
    assert str(raised.value) == "Settings: unknown setting isolaton; did you mean isolation?"
    assert raised.value.__notes__ == [f"{PAGE}#manifest-keys"]
    with pytest.raises(TypeError, match=r"^LimitSettings: unknown setting conections; did you mean connections\?"):
        LimitSettings(conections=1)
    settings = Settings(isolation="process")
    assert settings == parse_struct({"isolation": "process"}, Settings)
    assert msgspec.structs.replace(settings, port=3).isolation == "process"


async def test_38b_a_load_that_raises_in_serve():
    class Fails(Good):
        def load(self, config):
            raise FileNotFoundError("no weights")

    with pytest.raises(ModelFailed) as raised:
        await serve(Fails, port=0)
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert [file.rpartition("/")[2] for file in files] == ["test_first_day_of_programs.py", "serve.py"]
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    (cause,) = traceback.extract_tb(raised.value.__cause__.__traceback__)
    assert cause.name == "load"


def test_40b_a_path_for_run(capsys):
    with pytest.raises(SystemExit) as ended:
        run("model.py")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "got 'model.py': give the class itself, or call `reactor run model.py` in a shell (at " in said
    assert f"test_first_day_of_programs.py:{run_line()})" in said
    assert f"({PAGE}#wrong-use)" in said


def run_line() -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line == '        run("model.py")')


def test_6d_a_picture_as_a_default():
    with pytest.raises(DeclarationError) as raised:

        class Knobs(InputState):
            mask: np.ndarray = np.zeros((480, 640, 3))

    said = str(raised.value)
    assert "Knobs.mask: the default array([[[0., 0., 0.], [0., 0., 0.], " in said
    assert "... cannot be JSON; use bool, int" in said
    assert len(said) < 300


class Note(ModelMessage):
    text: str


class Sends(Good):
    @event
    def hit(self) -> None:
        self.send(Note(text="x"))


def test_27d_a_message_of_a_plain_handler():
    with pytest.warns(RuntimeWarning, match="make it `async def hit` and write `await self.send.message.` .*#not-awaited"):
        Sends().hit()


def test_a_plain_function_may_return_the_message_to_who_awaits_it():
    trio.run(lambda: Sends().send(Note(text="x")))


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [
        (0.0, 1.0, "(frame * 255).astype(np.uint8)"),
        (-1.0, 1.0, "((frame + 1) * 127.5).clip(0, 255).astype(np.uint8)"),
        (0.0, 255.0, "frame.clip(0, 255).astype(np.uint8)"),
    ],
)
def test_3_the_code_that_scales_floats(low, high, code):
    spec = TrackSpec("main_video", "video")
    error = mistake(spec, np.linspace(low, high, 192).reshape(8, 8, 3))
    assert isinstance(error, OutputError)
    assert str(error).endswith(f"; scale to 0..255 and cast to uint8: {code}")
