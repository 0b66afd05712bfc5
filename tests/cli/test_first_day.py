"""The mistakes of a first day, each made by file as a newcomer makes it: the words teach who, what, where, what to do.

Mistakes that need a client or a page are in `tests/behaviour/test_long_steps.py` (13, 15: a call that does not end),
`tests/concurrency/test_bounded_prints.py` (14), `tests/notebook/test_cell_server.py` (10, in a notebook) and
`clients/web/test` (11 and 13, on the page).
"""

from __future__ import annotations

import io
import socket
import textwrap
from typing import NamedTuple

import numpy as np
import pytest
from tests.support.cli_doubles import reactor

from reactor_trio import ReactorPipeline, RuntimeHost
from reactor_trio.cli import main
from reactor_trio.cli.client_command import token_hint
from reactor_trio.cli.terminal import USAGE, Terminal
from reactor_trio.errors import ConnectionRefused, ReactorError

HEAD = """\
from dataclasses import dataclass
import asyncio
import time
import numpy as np
from reactor_trio import *
from reactor_trio import (
    Audio, Input, InputField, InputState, ModelMessage, Output, ReactorModel, ReactorPipeline, Video, connected, event
)

@dataclass
class Out(Output):
    main_video: Video

class Note(ModelMessage):
    text: str

@dataclass
class MyState(InputState):
    strength: float = 0.5

"""
GOOD = "yield Out(main_video=np.zeros((8, 8, 3), np.uint8))"
RENDER = ("render", "model.py", "--frames", "2", "--out", "pictures")
SCHEMA = ("schema", "model.py")
PAGE = "docs/reference/errors.md"


def model(step: str = GOOD, *, body: str = "", head: str = HEAD, define: str = "def") -> str:
    """A model whose step, and whose methods `body`, have a mistake."""
    lines = [
        f"{head}class M(ReactorPipeline):",
        "    state: MyState",
        textwrap.indent(body, "    "),
        f"    {define} inference(self):",
        "        while True:",
        textwrap.indent(step, "            "),
    ]
    return "\n".join(lines) + "\n"


def frame(value: str) -> str:
    return model(f"yield Out(main_video={value})")


class Mistake(NamedTuple):
    """What is written into model.py, what the newcomer runs, and the words that teach; the last is the section."""

    source: str
    command: tuple[str, ...]
    words: tuple[str, ...]


MISTAKES = {
    "1 no yield": Mistake(
        model("return np.zeros((8, 8, 3), np.uint8)"), RENDER,
        ("there is no `yield` in M.inference", "yield each one, as in `yield frame`", "model.py:24)", "#no-yield"),
    ),
    "1 no inference": Mistake(
        HEAD + "class M(ReactorPipeline):\n    state: MyState\n", RENDER, ("M has no inference(): define it", "#no-yield"),
    ),
    "2 int32": Mistake(
        frame("np.zeros((8, 8, 3), np.int32)"), RENDER,
        ("got int32 (8, 8, 3); frame.clip(0, 255).astype(np.uint8) (at ", "model.py:26)", "#frame-type"),
    ),
    "3 floats": Mistake(
        frame("np.zeros((8, 8, 3))"), RENDER,
        ("scale to 0..255 and cast to uint8: (frame * 255).astype(np.uint8) (at ", "model.py:26)", "#frame-type"),
    ),
    "4 channels first": Mistake(
        frame("np.zeros((3, 8, 8), np.uint8)"), RENDER, ("it looks channels-first: transpose(1, 2, 0)", "#frame-type"),
    ),
    "5 a track that is not there": Mistake(
        model("yield Out(video=np.zeros((8, 8, 3), np.uint8))"), RENDER,
        ("Out has no track 'video'; its tracks: main_video (at ", "model.py:26)", "#tracks"),
    ),
    "6 an array from a client": Mistake(
        model(body="@event\ndef a(self, x: np.ndarray): pass\n"), SCHEMA,
        ("M.a.x: ndarray is not a type that a client can set; use bool, int, float, str, Literal", "(model.py:23)",
         "#client-types"),
    ),
    "6 an array as a setting": Mistake(
        model().replace("strength: float = 0.5", "strength: np.ndarray = np.zeros(3)"), SCHEMA,
        ("MyState.strength: the default array([0., 0., 0.]) cannot be JSON; use bool, int, float, str, Literal",
         "#client-types"),
    ),
    "9 a name that the package does not have": Mistake(
        "from reactor_trio import Vidoe\n" + model(), SCHEMA, ("did you mean Video?", "(model.py:1)", "#model-import"),
    ),
    "9 a module that is not there": Mistake(
        "import onnxruntime_of_nobody\n" + model(), SCHEMA,
        ("No module named 'onnxruntime_of_nobody' (model.py:1)", "pip install -r ", "requirements.txt",
         "#missing-module"),
    ),
    "10 load raises": Mistake(
        model(body="def load(self, config):\n    raise OSError('no weights')\n"), RENDER,
        ("load() raised OSError: no weights (model.py:24)", "#model-failed"),
    ),
    "11 a step raises": Mistake(
        model("raise ValueError('empty')\nyield"), RENDER, ("ValueError: empty (model.py:26)", "#model-failed"),
    ),
    "12 @connected raises": Mistake(
        model(body="@connected\ndef c(self):\n    raise ValueError('x')\n"), RENDER,
        ("@connected raised ValueError: x (model.py:25)", "#model-failed"),
    ),
    "15 a blocking sleep": Mistake(
        model(body="@event\nasync def jump(self):\n    time.sleep(0.2)\n"), ("doctor", "model.py"),
        ("M.jump calls time.sleep (at ", "model.py:25)", "write `await trio.sleep(seconds)`", "#blocking-sleep"),
    ),
    "16 no state": Mistake(
        model("self.state.strength\nyield").replace("    state: MyState\n", ""), RENDER,
        ("M has no state: annotate it in the class, `state: MyState`, with a subclass of InputState (model.py:",
         "#state"),
    ),
    "18 a grey picture": Mistake(
        frame("np.zeros((8, 8), np.uint8)"), RENDER,
        ("got uint8 (8, 8); it looks grey: np.stack([frame] * 3, axis=-1)", "#frame-type"),
    ),
    "18 a grey picture with its axis": Mistake(
        frame("np.zeros((8, 8, 1), np.uint8)"), RENDER, ("it looks grey: np.repeat(frame, 3, axis=-1)", "#frame-type"),
    ),
    "19 RGBA": Mistake(
        frame("np.zeros((8, 8, 4), np.uint8)"), RENDER, ("it looks like RGBA: frame[..., :3]", "#frame-type"),
    ),
    "19 bool": Mistake(
        frame("np.zeros((8, 8, 3), bool)"), RENDER, ("got bool (8, 8, 3); frame.astype(np.uint8) * 255", "#frame-type"),
    ),
    "19 16 bit": Mistake(
        frame("np.zeros((8, 8, 3), np.uint16)"), RENDER, ("(frame >> 8).astype(np.uint8)", "#frame-type"),
    ),
    "20 a setting without a default": Mistake(
        model().replace("strength: float = 0.5", "strength: float"), SCHEMA,
        ("MyState.strength: a state field needs a default, its value as a session begins", "model.py:", "#state"),
    ),
    "21 a list of frames": Mistake(
        frame("[np.zeros((8, 8, 3), np.uint8)]"), RENDER, ("stack the frames: np.stack(frames) (at ", "#frame-type"),
    ),
    "22 a syntax error": Mistake(model("yield ("), SCHEMA, ("'(' was never closed (model.py:26)", "#model-import")),
    "23 no model": Mistake(HEAD, SCHEMA, ("defines no model, a subclass of ReactorPipeline", "#model-import")),
    "24 asyncio": Mistake(
        model(f"await asyncio.gather()\n{GOOD}", define="async def"), RENDER,
        ("asyncio.gather does not work here", "use trio.open_nursery or anyio.create_task_group (model.py:26)", "#asyncio"),
    ),
    "25 an unknown annotation": Mistake(
        model(body="@event\ndef a(self, x: Nope): pass\n"), SCHEMA,
        ("NameError: name 'Nope' is not defined (model.py:24)", "#model-import"),
    ),
    "25 an unknown annotation that is read later": Mistake(
        "from __future__ import annotations\n" + model(body="@event\ndef a(self, x: Nope): pass\n"), SCHEMA,
        ("M.a: an annotation cannot be understood: name 'Nope' is not defined (model.py:24)", "#events"),
    ),
    "26 load without a parameter": Mistake(
        model(body="def load(self): pass\n"), RENDER,
        ("M.load is called with the configuration, a dict: write `def load(self, config):` (at ", "model.py:23)",
         "#load-argument"),
    ),
    "28 a key by a wrong argument": Mistake(
        model(body="@event\ndef key_left(self, pressed: bool): pass\n"), ("doctor", "model.py"),
        ("no key presses key_left, because it needs pressed", "model.py:23)", "call pressed `down`", "#keys"),
    ),
    "28 a key by a wrong name": Mistake(
        model(body="@event\ndef key_arrowright(self, down: bool): pass\n"), ("doctor", "model.py"),
        ("no key gives the command key_arrowright: no key has this name", "model.py:23)", "name it key_right", "#keys"),
    ),
    "41 another library's bounds": Mistake(
        model().replace("strength: float = 0.5", "strength: float = InputField(default=0.5, min=0, max=4)"), SCHEMA,
        ("InputField has no min; write ge=0 (at ", "model.py:19) (docs", "#state"),
    ),
    "41 a keyword of InputField": Mistake(
        model().replace("strength: float = 0.5", "strength: float = InputField(default=0.5, descripton='how strong')"),
        SCHEMA, ("InputField has no descripton; did you mean description? (at ", "model.py:19) (docs", "#state"),
    ),
    "42 a setting without a type": Mistake(
        model().replace("strength: float = 0.5", "strength = InputField(default=0.5)"), SCHEMA,
        ("MyState.strength: annotate it with a type, `strength: float = ...` (at ", "model.py:19) (docs", "#state"),
    ),
    "43 an event without self": Mistake(
        model(body="@event\ndef jump(height: float = 2.0, *, client): pass\n"), SCHEMA,
        ("M.jump: a method takes self first: write `def jump(self, height: float = 2.0, *, client)` (model.py:23)",
         "#events"),
    ),
    "43 a hook without self": Mistake(
        model(body="@connected\ndef greet(client): pass\n"), SCHEMA,
        ("M.greet: a method takes self first: write `def greet(self, client)`", "#events"),
    ),
    "44 a setting that is not there": Mistake(
        model("self.state.strenght\nyield"), RENDER,
        ("AttributeError: MyState has no field strenght; did you mean strength? (model.py:26)", "#model-failed"),
    ),
    "35 a frame without its sound": Mistake(
        model().replace("    main_video: Video\n", "    main_video: Video\n    main_audio: Audio\n"), RENDER,
        ("Out needs main_audio in each yield; silence is zeros, np.zeros((1, sample_rate // fps), np.int16) (at ",
         "model.py:27)", "#sound-type"),
    ),
    "35 None as sound": Mistake(
        model(GOOD.replace("uint8))", "uint8), main_audio=None)")).replace(
            "    main_video: Video\n", "    main_video: Video\n    main_audio: Audio\n"), RENDER,
        ("track main_audio: expected int16 (1, M), got NoneType; silence is zeros", "model.py:27)", "#sound-type"),
    ),
}  # fmt: skip


def last_words(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("reactor_trio.cli.render_command.configure_logging", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("numpy\n")
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_the_words_teach(folder, name, capsys):
    mistake = MISTAKES[name]
    (folder / "model.py").write_text(mistake.source)
    main(list(mistake.command))
    said = last_words(capsys)
    *words, section = mistake.words
    assert [word for word in words if word not in said] == [], said
    assert f"{PAGE}{section}" in said


def test_17_a_float16_tensor(folder, capsys):
    pytest.importorskip("torch")
    step = "import torch\nyield Out(main_video=torch.zeros((8, 8, 3), dtype=torch.float16))"
    (folder / "model.py").write_text(model(step))
    assert main(list(RENDER)) == 1
    assert "got float16 (8, 8, 3); to_frames converts it (at " in last_words(capsys)


def test_19_a_picture_of_pillow(folder, capsys):
    pytest.importorskip("PIL")
    step = "from PIL import Image\nyield Out(main_video=Image.new('RGB', (8, 8)))"
    (folder / "model.py").write_text(model(step))
    assert main(list(RENDER)) == 1
    assert "got Image; make an array of it: np.asarray(image.convert('RGB')) (at " in last_words(capsys)


@pytest.mark.filterwarnings("always::RuntimeWarning")
def test_27_a_message_that_is_not_awaited(folder):
    step = f"self.send(Note(text='hello'))\n{GOOD}"
    (folder / "model.py").write_text(model(step, define="async def"))
    match = (
        r"'self\.send\(message\) is not awaited, so nothing is sent: write `await self\.send\(message\)` "
        r"\(at .*model.py:26\) \(.*#not-awaited\)' was never"
    )
    with pytest.warns(RuntimeWarning, match=match) as told:
        assert main(list(RENDER)) == 0
    assert told[0].filename.endswith("model.py")
    assert told[0].lineno == 26


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle: model:M", "modle: unknown key; did you mean model?"),
        ("model: model:M\nruntime: {isolation: proces}", "runtime.isolation: expected thread or process, got 'proces'; did "
         "you mean process?"),
        ("model: model:M\nruntime: {slow_client: wait}", "runtime.slow_client: expected drop or hold, got 'wait'"),
        ("model: model:M\nruntime: {max_session: 2}", "runtime.max_session: unknown key; did you mean runtime.max_sess"),
        ("model: model:M\nruntime: {fps: fast}", "runtime.fps: Expected float | null, got str 'fast'; write a number, as"),
        ("model: model.py:M", "model: expected module:Class, got 'model.py:M'; write model:M"),
        ("model: ./src/model.py", "model: expected module:Class, got './src/model.py'; write src.model:Class"),
        ("model: model.M", "model: expected module:Class, got 'model.M'"),
        ("model: model:N", "has no class N; did you mean model:M?"),
        ("model: modle:M", "no module modle (looked for "),
        ("model: model:M\nruntime: {port: 99999}", "runtime.port: Expected int <= 65535, got 99999"),
        ("model: model:M\nruntime: {port: eighty}", "runtime.port: Expected int, got str 'eighty'; write a whole number, "),
        ("model: model:M\nruntime: {fps: -3}", "runtime.fps: Expected float > 0.0, got -3"),
    ],
)  # fmt: skip
def test_7_typos_in_the_manifest(folder, text, words, capsys):
    (folder / "model.py").write_text(model())
    (folder / "reactor.yaml").write_text(text + "\n")
    assert main(["schema"]) == USAGE
    said = last_words(capsys)
    assert words in said, said
    named = "#model-import" if words.startswith(("has no", "no module")) else "#manifest-keys"
    assert f"({PAGE}{named})" in said


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("waves", "waves/reactor.yaml: no such file; did you mean waves.py?"),
        ("wavse.py", "wavse.py: no such file; did you mean waves.py?"),
        ("garden.py", "garden.py: no such file; did you mean garden?"),
        ("gardn", "gardn/reactor.yaml: no such file; did you mean garden?"),
        ("nothing.py", "nothing.py: no such file (docs"),
        ("nothing", "nothing/reactor.yaml: no such file; give a project folder or a file such as model.py, or make a"),
    ],
)
def test_45_a_project_that_is_not_there(folder, place, words, capsys):
    (folder / "waves.py").write_text(model())
    (folder / "garden").mkdir()
    (folder / "garden" / "reactor.yaml").write_text("model: model:M\n")
    (folder / "weights").mkdir()
    assert main(["schema", place]) == USAGE
    assert words in last_words(capsys)


def test_8_a_port_in_use(folder):
    (folder / "model.py").write_text(model())
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = reactor("run", "model.py", "--port", other.getsockname()[1])
    assert done.returncode == USAGE
    assert "Address already in use; stop what uses it (ss -ltnp 'sport = :" in done.stderr


def test_a_setting_that_is_sent_without_set(capsys):
    assert main(["client", "127.0.0.1:1", "--plain", "--send", "strength=0.9"]) == USAGE
    said = last_words(capsys)
    assert "--send strength=0.9: strength is not a set_ command; did you mean set_strength=0.9?" in said
    assert f"({PAGE}#send)" in said


class Good(ReactorPipeline):
    def inference(self):
        yield np.zeros((8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("project/reactor.yaml",), "expected a model class or a manifest, got 'project/reactor.yaml': give the class of"),
        ((Good(),), "expected a model class or a manifest, got Good: give the class itself, Good, or a project's manifest"),
        ((Good, {"isolation": "process"}), "got dict: give settings=Settings(isolation='process'), of reactor_trio.config"),
    ],
)
def test_a_program_gives_what_is_no_model(given, words):
    model, *settings = given
    with pytest.raises(ReactorError) as raised:
        RuntimeHost(model, **({"settings": settings[0]} if settings else {}))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.__notes__ == [f"{PAGE}#wrong-use"]


def test_a_refusal_for_the_token_names_the_variable():
    assert token_hint(401, None) == "; put it into the variable REACTOR_TOKEN, or give --token"
    assert token_hint(401, "wrong") == "; the token of --token, the URL or REACTOR_TOKEN is not valid"
    assert token_hint(503, None) == ""


def test_a_refusal_of_another_program_has_a_section_too():
    said = io.StringIO()
    Terminal(io.StringIO(), said).explain(ConnectionRefused(401, "no token"))
    assert said.getvalue().startswith("reactor: the runtime itself failed: ConnectionRefused: ")
