"""`reactor init`: the project that it writes runs, and it overwrites nothing."""

from __future__ import annotations

import difflib
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import trio
from tests.support.cli_doubles import reactor, without_links

from reactor_trio.cli import main
from reactor_trio.cli.init_command import PLACEHOLDER, template_names
from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.interface import ReactorModel, ReactorPipeline
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.manifest_files import files_of_manifest
from reactor_trio.testing import open_session

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_the_example_is_what_init_writes_plus_a_tone():
    """The example is the template, to the letter; it adds sound and a script."""
    assert main(["init", "gradient"]) == 0
    written, example = files(Path("gradient")), files(EXAMPLES / "gradient")
    assert set(written) - {"thumbnail.webp"} == set(example) - {"film.yaml"} == {
        "README.md", "config.yml", "pipeline.py", "reactor.yaml", "requirements.txt",
    }  # fmt: skip
    assert {name for name in example if written.get(name, b"") != example[name]} == {
        "README.md", "film.yaml", "pipeline.py", "reactor.yaml",  # each introduces itself with its own settings
    }  # fmt: skip
    assert load_manifest(Path("gradient")).introduction.pictures["thumbnail.webp"].data == written["thumbnail.webp"]
    rendering = [content["pipeline.py"].partition(b"# The functions below")[2] for content in (written, example)]
    assert rendering[0] == rendering[1] != b""
    lines = [content["pipeline.py"].decode().splitlines() for content in (written, example)]
    gone = [line for line in difflib.ndiff(*lines) if line.startswith("- ")]
    # the docstring, two imports, a description, the yield, and the frame number, which is part of the saved world
    assert len(gone) == 8, gone


def test_init_writes_a_model_that_runs():
    assert reactor("init", "demo").returncode == 0
    manifest = load_manifest(Path("demo"))
    assert (manifest.name, manifest.config) == ("demo", {"width": 640, "height": 480, "chunk_size": 4})
    assert issubclass(manifest.model, ReactorPipeline)
    assert manifest.model.buffer_size == 8
    assert [track["name"] for track in declaration_of(manifest.model).schema()["tracks"]] == ["main_video"]


def test_the_gradient_moves_and_follows_brightness():
    main(["init", "demo"])
    render_batch = __import__(load_manifest(Path("demo")).model.__module__).render_batch
    batch, following = render_batch(640, 480, 4, 0, 1.0)
    assert (batch.shape, batch.dtype, following) == ((4, 480, 640, 3), np.uint8, 4)
    assert all(not np.array_equal(one, other) for one, other in itertools.pairwise(batch))
    light = [render_batch(64, 48, 1, 0, brightness)[0].mean() for brightness in (0.0, 0.5, 1.0, 2.0)]
    assert light[0] == 0
    assert light == sorted(set(light))
    # After an hour of frames the numbers are still in range; odd sizes work.
    assert render_batch(63, 47, 2, 10**6, 1.0)[0].shape == (2, 47, 63, 3)
    # The picture moves smoothly from frame to frame.
    assert np.abs(batch[0].astype(int) - batch[1]).max() < 16


@pytest.mark.parametrize("template", template_names())
def test_each_template_loads_and_leaves_no_placeholder(template):
    assert main(["init", "mine", "--template", template]) == 0
    manifest = load_manifest(Path("mine"))
    assert manifest.name == "mine"
    assert issubclass(manifest.model, ReactorModel)
    model = manifest.model()
    with files_of_manifest(manifest.files):
        model.load(load_argument(model.load, manifest.config))
    assert not any(PLACEHOLDER.encode() in content for content in files(Path("mine")).values())


@pytest.mark.parametrize("template", template_names())
async def test_each_template_is_served(template, autojump_clock):
    assert main(["init", "served", "--template", template]) == 0
    manifest = load_manifest(Path("served"))
    async with open_session(manifest.model, config=manifest.config) as client:
        frames = await client.take(3)
        assert frames[0].data.shape == (480, 640, 3)
        assert not np.array_equal(frames[0].data, frames[2].data)


async def test_the_app_template_answers_and_pauses(autojump_clock):
    assert main(["init", "answers", "--template", "app"]) == 0
    manifest = load_manifest(Path("answers"))
    async with open_session(manifest.model, config={"width": 32, "height": 24}, step_cost=1 / 15) as client:
        assert await client.command("restart") == {"runs": 2}
        await client.command("set_paused", paused=True)
        steps = client.server.model.waves.time
        await trio.sleep(1)
        assert client.server.model.waves.time == steps


def test_an_existing_folder_is_refused_and_nothing_is_written(capsys):
    Path("demo").mkdir()
    assert main(["init", "demo"]) == 2
    assert without_links(capsys.readouterr().err) == "reactor: demo exists already; nothing was written\n"
    assert list(Path("demo").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "file"], "file exists already; nothing was written"),
        (["init", "file/below"], "cannot make file/below: "),
        (["init", "my model"], "'my model': a project's name is made of letters"),
        (["init", "."], "'.': a project's name is made of letters"),
        (["init", "demo", "--template", "none"], "no template 'none'; there are: app, gradient, run_loop"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_in_one_line(arguments, message, capsys):
    Path("file").write_text("kept")
    assert main(arguments) == 2
    error = without_links(capsys.readouterr().err)
    assert error.startswith(f"reactor: {message}")
    assert error.count("\n") == 1
    assert Path("file").read_text() == "kept"
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["2048", "true", "1e3", "nested/deep/demo"])
def test_any_name_becomes_the_models_name_as_text(name):
    assert main(["init", name]) == 0
    assert load_manifest(Path(name)).name == Path(name).name


@pytest.mark.parametrize(("path", "program"), [(None, "reactor"), ("", f"{sys.executable} -m reactor_trio")])
def test_what_to_do_next_can_be_copied_also_if_reactor_is_not_on_the_path(monkeypatch, capsys, path, program):
    if path is None:
        Path("reactor").touch(mode=0o755)
        path = str(Path.cwd())
    monkeypatch.setenv("PATH", path)
    assert main(["init", "demo"]) == 0
    assert capsys.readouterr().out == (
        "wrote demo: README.md, config.yml, pipeline.py, reactor.yaml, requirements.txt, thumbnail.webp\n"
        f"next: cd demo && {program} run\n"
        f"in another terminal, first: source {sys.prefix}/bin/activate\n"
    )
