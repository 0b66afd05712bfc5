"""`reactor.yaml` and `config.yml`: what is read, what is refused, and how the model class is imported."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from reactor_trio.errors import ManifestError
from reactor_trio.server.manifest import author_location, load_manifest, parse_value

MODEL = """
    from reactor_trio.interface import ReactorModel

    class MyModel(ReactorModel):
        marker = {marker!r}
"""


@pytest.fixture(autouse=True)
def _restore_imports():
    path, modules = list(sys.path), dict(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        if not name.startswith(("reactor_trio", "numpy", "yaml")):
            del sys.modules[name]


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "project")


def make_project(folder: Path, manifest="model: pipeline:MyModel\nname: my-model\n", **files: str) -> Path:
    folder.mkdir()
    (folder / "reactor.yaml").write_text(manifest)
    files = {"pipeline.py": MODEL.format(marker=folder.name)} | files
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def refusal(call, *arguments, **named) -> str:
    with pytest.raises(ManifestError) as caught:
        call(*arguments, **named)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- the file ---------------------------------------------------------------------------------------------------------


def test_t115_without_a_config_key_load_gets_an_empty_dict(project):
    manifest = load_manifest(project)
    assert manifest.config == {}
    assert type(manifest.config) is dict


def test_t116_the_config_beside_the_manifest_is_read_from_any_folder(project, tmp_path, monkeypatch):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("width: 640\nsampler: {steps: 4}\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yml").write_text("width: 1\n")
    monkeypatch.chdir(other)
    assert load_manifest(Path("../project")).config == {"width": 640, "sampler": {"steps": 4}}


def test_the_name_falls_back_to_the_text_of_model(project):
    assert load_manifest(project).name == "my-model"
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    assert load_manifest(project).name == "pipeline:MyModel"


def test_runtime_overrides_go_over_the_manifests(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nruntime: {port: 9000, fps: 24}\n")
    settings = load_manifest(project, runtime_overrides={"port": 0}).settings
    assert (settings.port, settings.fps) == (0, 24.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "reactor.yaml: model: missing; write `model: module:Class`"),
        ("name: x\n", "reactor.yaml: model: missing"),
        ("model: pipeline\n", "reactor.yaml: model: expected module:Class, got 'pipeline'"),
        ("model: 'a b:C'\n", "reactor.yaml: model: expected module:Class, got 'a b:C'"),
        ("model: {name: x}\n", "reactor.yaml: model: Expected str, got object"),
        ("model: a:B\nname: 3\n", "reactor.yaml: name: Expected str | null, got int"),
        ("model: a:B\nname: ' '\n", "reactor.yaml: name: must not be empty"),
        ("modl: a:B\nmodel: a:B\n", "reactor.yaml: modl: unknown key; did you mean model?"),
        ("model: a:B\nruntime: {prot: 1}\n", "reactor.yaml: runtime.prot: unknown key; did you mean runtime.port?"),
        ("model: a:B\nruntime: 3\n", "reactor.yaml: runtime: expected a mapping, got int"),
        ("model: a:B\nruntime: {max_sessions: 0}\n", "reactor.yaml: runtime.max_sessions: Expected int >= 1"),
        ("model: a:B\nname: x\nname: y\n", "reactor.yaml:3:1: the key 'name' stands twice"),
        ("- a\n", "reactor.yaml: expected a mapping, got list"),
        ("model: [a\n", "reactor.yaml:2:1: "),
        ("model: !!python/object:os.system {}\n", "reactor.yaml:1:8: could not determine a constructor"),
        ("model: a:B\nconfig: none.yml\n", "reactor.yaml: config: no such file: "),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_in_one_line(project, text, message):
    (project / "reactor.yaml").write_text(text)
    assert message in refusal(load_manifest, project)


def test_a_folder_without_a_manifest_says_how_to_make_one(tmp_path):
    assert "reactor init NAME" in refusal(load_manifest, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n", "config.yml: expected a mapping, got list"),
        (b"just text\n", "config.yml: expected a mapping, got str"),
        (b"a: 1\nb: {c: 1, c: 2}\n", "config.yml:2:11: the key 'c' stands twice"),
        (b"a: \xff\n", "config.yml: cannot be read: "),
    ],
)
def test_a_config_that_cannot_be_used_is_refused_in_one_line(project, content, message):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_bytes(content)
    assert message in refusal(load_manifest, project)


def test_an_empty_config_is_an_empty_dict(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("# nothing yet\n")
    assert load_manifest(project).config == {}


def test_a_merged_mapping_is_no_duplicate_key(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("base: &base {a: 1, b: 2}\nours: {<<: *base, a: 3}\n")
    assert load_manifest(project).config["ours"] == {"a": 3, "b": 2}


# --- --set ------------------------------------------------------------------------------------------------------------


def test_t117_overrides_are_typed_as_yaml_and_make_the_mappings_they_need(project):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("width: 640\nsampler: {steps: 4, eta: 0.5}\nempty:\n")
    texts = ["width=320", "sampler.steps=8", "new.deep.key=[1, two]", "empty.x=true", "text=a=b", "none="]
    assert load_manifest(project, texts).config == {
        "width": 320,
        "sampler": {"steps": 8, "eta": 0.5},
        "new": {"deep": {"key": [1, "two"]}},
        "empty": {"x": True},
        "text": "a=b",
        "none": None,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("1.e3", 1000.0), ("+.5E-2", 0.005), ("1e", "1e"), ("e3", "e3"), ("2024-01-01", "2024-01-01"),
     ("0x10", 16), ("'1e-4'", "1e-4"), ("null", None)],
)  # fmt: skip
def test_numbers_are_read_as_authors_write_them(text, value):
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width", "--set width: expected key.sub=value"),
        ("=3", "--set =3: expected key.sub=value"),
        ("a..b=3", "--set a..b=3: expected key.sub=value"),
        ("a=[1", "--set a=[1: the value is not valid YAML"),
        ("width.sub=3", "--set width.sub=3: width is 640, not a mapping, so nothing can be set below it"),
        ("sampler.steps.x=3", "--set sampler.steps.x=3: sampler.steps is 4, not a mapping"),
    ],
)
def test_an_override_that_cannot_be_applied_is_refused(project, text, message):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("width: 640\nsampler: {steps: 4}\n")
    assert refusal(load_manifest, project, [text]).startswith(message)


# --- the model class --------------------------------------------------------------------------------------------------


def test_the_module_is_imported_at_the_first_look_only(project):
    (project / "pipeline.py").write_text("raise RuntimeError('imported')\n")
    manifest = load_manifest(project)
    assert "raised RuntimeError: imported (pipeline.py:1)" in refusal(lambda: manifest.model)


def test_the_class_is_the_same_at_each_look_and_each_load(project):
    manifest = load_manifest(project)
    assert manifest.model is manifest.model
    assert manifest.model.marker == "project"
    assert load_manifest(project).model is manifest.model


def test_two_projects_with_one_module_name_get_their_own(tmp_path):
    sibling = "    from render import COLOUR\n"
    first = make_project(tmp_path / "first", **{"render.py": "COLOUR = 'red'\n"})
    second = make_project(tmp_path / "second", **{"render.py": "COLOUR = 'blue'\n"})
    for folder in (first, second):
        (folder / "pipeline.py").write_text(textwrap.dedent(sibling + MODEL.format(marker=folder.name)))
    found = [load_manifest(folder).model for folder in (first, second, first)]
    assert [model.marker for model in found] == ["first", "second", "first"]
    assert [sys.modules[model.__module__].COLOUR for model in found[-1:]] == ["red"]


def test_a_cached_module_of_the_same_name_from_elsewhere_is_not_taken(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pipeline.py").write_text("class MyModel: marker = 'wrong'\n")
    monkeypatch.syspath_prepend(elsewhere)
    import pipeline  # type: ignore[import-not-found]

    assert pipeline.MyModel.marker == "wrong"
    assert load_manifest(make_project(tmp_path / "right")).model.marker == "right"


def test_an_installed_module_is_not_dropped_for_a_folder_of_its_name(project):
    import yaml

    (project / "yaml").mkdir()
    (project / "yaml" / "__init__.py").write_text("")
    assert load_manifest(project).model.marker == "project"
    assert sys.modules["yaml"] is yaml


def test_a_model_in_a_package_and_its_imports_while_it_runs(tmp_path):
    source = MODEL + "\n        def load(self, config):\n            import late\n            return late.VALUE\n"
    folder = make_project(
        tmp_path / "packaged", "model: net.model:MyModel\n",
        **{"net/__init__.py": "", "net/model.py": source.format(marker="in a package"), "late.py": "VALUE = 7\n"},
    )  # fmt: skip
    model = load_manifest(folder).model
    assert model.marker == "in a package"
    assert model.load(None, {}) == 7


@pytest.mark.parametrize(
    ("model_path", "message"),
    [
        ("pipelin:MyModel", "reactor.yaml: model: no module pipelin (looked for "),
        ("net.inner:MyModel", "reactor.yaml: model: no module net.inner (looked for "),
        ("pipeline:MyModle", "pipeline.py has no class MyModle; did you mean pipeline:MyModel?"),
        ("pipeline:ReactorModle", "pipeline.py has no class ReactorModle; did you mean pipeline:MyModel?"),
        ("pipeline:HELPER", "pipeline:HELPER is not a model; it must be a subclass of "),
        ("pipeline:Helper", "pipeline:Helper is not a model; it must be a subclass of "),
        ("types:MyModel", "types is the name of a module of Python's own library; rename the file"),
        ("syntax:MyModel", "importing syntax raised SyntaxError: "),
        ("lacking:MyModel", "importing lacking raised ModuleNotFoundError: No module named 'no_such_package'"),
        ("leaving:MyModel", "importing leaving raised SystemExit: 3 (leaving.py:2)"),
    ],
)
def test_t118_a_model_that_cannot_be_imported_is_one_line_that_names_it(tmp_path, model_path, message):
    folder = make_project(
        tmp_path / "broken", f"model: {model_path}\n",
        **{
            "pipeline.py": MODEL.format(marker=1) + "\n    HELPER = 3\n    class Helper: pass\n",
            "types.py": "", "syntax.py": "x = 1\ndef f(:\n", "lacking.py": "\nimport no_such_package\n",
            "leaving.py": "import sys\nsys.exit(3)\n",
        },
    )  # fmt: skip
    manifest = load_manifest(folder)
    assert message in refusal(lambda: manifest.model)


def test_the_authors_line_is_named_also_when_the_error_comes_from_a_library(project):
    (project / "pipeline.py").write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(ManifestError, match=r"JSONDecodeError: .* \(pipeline.py:3\)") as caught:
        load_manifest(project).model  # noqa: B018
    assert author_location(caught.value.__cause__, project) == "pipeline.py:3"


def test_a_library_inside_the_project_is_not_the_authors(project):
    library = project / ".venv" / "site-packages" / "thing.py"
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("1 / 0", str(library), "exec"), {})
    assert author_location(caught.value, project) is None
