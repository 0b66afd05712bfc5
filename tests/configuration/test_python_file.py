"""A manifest without `reactor.yaml`: made from a Python file, or from a class."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from reactor_trio.configuration.manifest import load_manifest, manifest_of_class, project_folder
from reactor_trio.configuration.model_import import import_in_progress
from reactor_trio.errors import ManifestError
from reactor_trio.interface import ReactorModel

HEAD = "from reactor_trio.interface import ReactorModel, ReactorPipeline\n"


def written(folder: Path, text: str, name: str = "sky.py") -> Path:
    file = folder / name
    file.write_text(HEAD + dedent(text), encoding="utf-8")
    return file


def refusal(function):
    with pytest.raises(ManifestError) as caught:
        function()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_class_that_a_file_defines_is_its_model(tmp_path):
    (tmp_path / "beside.py").write_text("WIDTH = 7\n")
    file = written(tmp_path, "from beside import WIDTH\nclass Sky(ReactorModel): width = WIDTH\nAlias = Sky\n")
    manifest = load_manifest(file, ["size.width=3"], {"port": 0, "host": None})
    assert (manifest.name, manifest.path, manifest.config) == ("sky", tmp_path, {"size": {"width": 3}})
    assert (manifest.settings.port, manifest.settings.host) == (0, "127.0.0.1")
    assert (manifest.model.__name__, manifest.model.width) == ("Sky", 7)
    assert load_manifest(file).config == {}


def test_of_several_models_in_a_file_the_named_one_is_served(tmp_path):
    file = written(tmp_path, "class Sky(ReactorModel): pass\nclass Sea(Sky): pass\n")
    assert refusal(lambda: load_manifest(file).model) == (
        f"{file}: defines several models: Sky, Sea; name one, as in sky.py:Sky"
    )
    manifest = load_manifest(tmp_path / "sky.py:Sea")
    assert (manifest.name, manifest.model.__name__) == ("Sea", "Sea")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none.py", "none.py: no such file"),
        ("my-sky.py", "my-sky.py: Python cannot import a module with this name; rename the file, for instance my_sky.py"),
        ("sky.py:1", "sky.py: expected sky.py:Class, got sky.py:1"),
        ("sky.py:", "sky.py: expected sky.py:Class, got sky.py:"),
        ("none", "none/reactor.yaml: no such file; give a project folder or a file such as model.py, or make a project: "),
    ],
)
def test_a_place_that_is_no_project_is_one_line(tmp_path, place, message):
    written(tmp_path, "", "my-sky.py")
    written(tmp_path, "class Sky(ReactorModel): pass\n")
    assert refusal(lambda: load_manifest(tmp_path / place)).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("a.py", "x = 1\n", "a.py: defines no model, a subclass of ReactorPipeline, ReactorModel, ReactorApp or VideoModel"),
        ("b.py:Skye", "class Sky(ReactorModel): pass\n", "b.py has no class Skye; did you mean b.py:Sky?"),
        ("c.py:x", "x = 1\n", "c.py: c:x is not a model; it must be a subclass of ReactorPipeline"),
        ("d.py", "\n1 / 0\n", "d.py: importing d raised ZeroDivisionError: division by zero (d.py:3)"),
        ("types.py", "", "types.py: types is the name of a module of Python's own library; rename the file"),
    ],
)
def test_a_file_without_the_model_is_one_line(tmp_path, place, text, message):
    written(tmp_path, text, place.partition(":")[0])
    manifest = load_manifest(tmp_path / place)
    assert message in refusal(lambda: manifest.model)


def test_a_wrong_setting_is_named_as_in_a_manifest(tmp_path):
    file = written(tmp_path, "class Sky(ReactorModel): pass\n")
    assert refusal(lambda: load_manifest(file, (), {"prot": 1})) == (
        "runtime.prot: unknown key; did you mean runtime.port?"
    )


@pytest.mark.parametrize("place", ["sky.py", "sky.py:Sky"])
def test_the_place_makes_the_same_manifest_again(tmp_path, place, monkeypatch):
    """A replica makes it, in another folder."""
    written(tmp_path, "class Sky(ReactorModel): pass\n")
    monkeypatch.chdir(tmp_path)
    manifest = load_manifest(Path(place))
    assert manifest.load_path == tmp_path / place
    assert project_folder(Path(place)) == tmp_path
    monkeypatch.chdir("/")
    assert load_manifest(manifest.load_path) == manifest


def test_a_folder_whose_name_ends_like_a_file_is_a_folder(tmp_path):
    folder = tmp_path / "sky.py"
    folder.mkdir()
    (folder / "reactor.yaml").write_text("model: a:B\n")
    assert load_manifest(folder).model_path == "a:B"
    assert project_folder(folder) == folder


def test_while_a_model_is_imported_its_code_can_know(tmp_path):
    text = "from reactor_trio.configuration.model_import import import_in_progress\nclass Sky(ReactorModel):\n"
    file = written(tmp_path, text + "    during = import_in_progress()\n")
    assert load_manifest(file).model.during is True
    assert import_in_progress() is False


class Sky(ReactorModel):
    pass


def test_a_class_is_served_under_its_name():
    manifest = manifest_of_class(Sky, config={"width": 3}, runtime={"fps": 12})
    assert (manifest.name, manifest.config, manifest.settings.fps, manifest.model) == ("Sky", {"width": 3}, 12.0, Sky)
    assert manifest.path == Path(__file__).parent
    assert manifest_of_class(Sky, name="evening").name == "evening"


@pytest.mark.parametrize("given", [int, "model.py", Sky()], ids=["another class", "a path", "an instance"])
def test_a_name_that_is_not_a_model_class_is_refused(given):
    assert "expected a model class, a subclass of ReactorPipeline" in refusal(lambda: manifest_of_class(given))


def test_a_wrong_option_of_a_program_is_named():
    assert refusal(lambda: manifest_of_class(Sky, runtime={"prot": 1})).startswith("runtime.prot: unknown key")
