"""`reactor.yaml` and `config.yml`: what is read, what is refused, and how the model class is imported."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.model_import import author_location
from reactor_trio.configuration.yaml_values import parse_value
from reactor_trio.errors import ManifestError

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


def test_without_a_config_key_load_gets_an_empty_dict(project):
    manifest = load_manifest(project)
    assert manifest.config == {}
    assert type(manifest.config) is dict


def test_the_config_beside_the_manifest_is_read_from_any_folder(project, tmp_path, monkeypatch):
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
        ("model: [a:B]\n", "reactor.yaml: model: Expected str, got array"),
        ("model: a:B\nname: 3\n", "reactor.yaml: name: Expected str | null, got int"),
        ("model: a:B\nname: ' '\n", "reactor.yaml: name: must not be empty"),
        ("modl: a:B\nmodel: a:B\n", "reactor.yaml: modl: unknown key; did you mean model?"),
        ("model: a:B\nwidth: 5\n", "reactor.yaml: width: unknown key; known keys: "),
        ("model: a:B\nwidth: 5\n", "; a value of your model belongs in the file of `config`, for load(config)"),
        ("model: a:B\nruntime: {prot: 1}\n", "reactor.yaml: runtime.prot: unknown key; did you mean runtime.port?"),
        ("model: a:B\nruntime: 3\n", "reactor.yaml: runtime: expected a mapping, got int"),
        ("model: a:B\nruntime: {max_sessions: 0}\n", "reactor.yaml: runtime.max_sessions: Expected int >= 1"),
        ("model: a:B\nname: x\nname: y\n", "reactor.yaml:3:1: the key 'name' is given twice"),
        ("- a\n", "reactor.yaml: expected a mapping, got list"),
        ("model: [a\n", "reactor.yaml:2:1: "),
        ("model: !!python/object:os.system {}\n", "reactor.yaml:1:8: could not determine a constructor"),
        ("model: a:B\nconfig: none.yml\n", "reactor.yaml: config: no such file: "),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_in_one_line(project, text, message):
    (project / "reactor.yaml").write_text(text)
    assert message in refusal(load_manifest, project)


# --- the nested form of Reactor 2.5 and later -----------------------------------------------------------------------------


NESTED = """
$schema: reactor/v2
model:
  name: world-model
  version: v0.0.1
  display-name: World Model
  resources: {gpu: {type: NVIDIA_B200, count: 1}}
runtime:
  import: pipeline:MyModel
  config: config.yml
  weights_path: ./weights
build: {runtime_version: "3.6.1"}
deployment: {instances: [{region: us-west, count: 1}]}
"""


def test_the_nested_form_says_what_the_flat_one_says(project):
    (project / "config.yml").write_text("width: 640\n")
    (project / "reactor.yaml").write_text(NESTED)
    nested = load_manifest(project, ["width=320"])
    assert nested.model.marker == "project"
    assert (nested.name, nested.config, nested.weights) == ("world-model", {"width": 320}, project / "weights")
    assert nested.unused == ()
    (project / "reactor.yaml").write_text(
        "model: pipeline:MyModel\nname: world-model\nconfig: config.yml\nweights_path: weights\n"
    )
    flat = load_manifest(project, ["width=320"])
    assert (flat.model, flat.name, flat.config, flat.weights, flat.settings) == (
        nested.model, nested.name, nested.config, nested.weights, nested.settings,
    )  # fmt: skip


def test_our_own_settings_stand_beside_the_import(project):
    (project / "reactor.yaml").write_text("runtime: {import: 'pipeline:MyModel', port: 9000, limits: {connections: 3}}\n")
    manifest = load_manifest(project, runtime_overrides={"host": "::1"})
    assert (manifest.settings.port, manifest.settings.host, manifest.settings.limits.connections) == (9000, "::1", 3)
    assert (manifest.name, manifest.config, manifest.model.marker) == ("pipeline:MyModel", {}, "project")


def test_the_store_of_worlds_and_its_keys_are_relative_to_the_manifest(project, tmp_path):
    (project / "reactor.yaml").write_text(
        "model: pipeline:MyModel\nruntime: {worlds: {store: saved/worlds, keys: ['file:key', 'env:KEY']}}\n"
    )
    worlds = load_manifest(project).settings.worlds
    assert worlds.store == str(project / "saved/worlds")
    assert worlds.keys == (f"file:{project / 'key'}", "env:KEY")
    (project / "reactor.yaml").write_text(f"model: pipeline:MyModel\nruntime: {{worlds: {{store: {tmp_path}/store}}}}\n")
    assert load_manifest(project).settings.worlds.store == f"{tmp_path}/store"


@pytest.mark.parametrize("header", ["apiVersion: v1beta\nkind: VideoModel\n", "$schema: reactor/v1\n", ""])
def test_every_header_of_the_nested_form_is_taken(project, header):
    (project / "reactor.yaml").write_text(header + "model: {name: mine}\nruntime: {import: 'pipeline:MyModel'}\n")
    assert load_manifest(project).name == "mine"


def test_keys_of_the_manifest_without_effect_are_named(project):
    (project / "reactor.yaml").write_text(
        "model: {name: mine}\nrecording: {enabled: true, chunk_seconds: 4}\nmoderation: {enabled: false}\n"
        "runtime: {import: 'pipeline:MyModel', livekit: {url: 'wss://x'}, step_results: {enabled: false}}\n"
    )
    assert load_manifest(project).unused == ("runtime.livekit", "recording")


def test_moderation_that_is_asked_for_must_have_its_function(project):
    text = "model: {name: mine}\nmoderation: {enabled: true}\nruntime: {import: 'pipeline:MyModel'%s}\n"
    (project / "reactor.yaml").write_text(text % "")
    assert "moderation: here a function of the project moderates; name it as runtime.moderate" in refusal(
        load_manifest, project
    )
    (project / "reactor.yaml").write_text(text % ", moderate: 'pipeline:check'")
    assert load_manifest(project).settings.moderate == "pipeline:check"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {name: x}\n", "reactor.yaml: runtime.import: missing; write `import: module:Class` under `runtime:`"),
        ("$schema: reactor/v2\n", "reactor.yaml: runtime.import: missing"),
        ("$schema: reactor/v2\nmodel: a:B\n", "model: expected a mapping, got str; the class is runtime.import"),
        ("runtime: {import: a}\n", "reactor.yaml: runtime.import: expected module:Class, got 'a'"),
        ("runtime: {import: 3}\n", "reactor.yaml: runtime.import: Expected str, got int"),
        ("runtime: {import: 'a:B', prot: 1}\n", "reactor.yaml: runtime.prot: unknown key; did you mean runtime.port?"),
        ("runtime: {import: 'a:B', config: none.yml}\n", "reactor.yaml: config: no such file: "),
        ("runtime: {import: 'a:B', config: {a: 1}}\n", "reactor.yaml: runtime.config: Expected str, got dict"),
        ("runtime: {import: 'a:B'}\nconfig: c\n", "config: unknown key beside runtime.import; did you mean runtime.config?"),
        ("runtime: {import: 'a:B'}\nname: c\n", "name: unknown key beside runtime.import; did you mean model.name?"),
        ("runtime: {import: 'a:B'}\nbild: {}\n", "bild: unknown key beside runtime.import; did you mean build?"),
        ("runtime: {import: 'a:B'}\nzzz: {}\n", "zzz: unknown key beside runtime.import; known keys: $schema, "),
        ("model: {name: ' '}\nruntime: {import: 'a:B'}\n", "reactor.yaml: model.name: must not be empty"),
        ("model: {name: 3}\nruntime: {import: 'a:B'}\n", "reactor.yaml: model.name: Expected str, got int"),
        ("model: a:B\nruntime: {import: 'a:B'}\n", "reactor.yaml: model: expected a mapping, got str; "),
        ("model: {name: x}\nruntime: 3\n", "reactor.yaml: runtime: expected a mapping, got int"),
    ],
)
def test_a_nested_manifest_that_cannot_be_used_names_its_own_keys(project, text, message):
    (project / "reactor.yaml").write_text(text)
    assert message in refusal(load_manifest, project)


@pytest.mark.parametrize(
    ("model_path", "message"),
    [("pipelin:MyModel", "reactor.yaml: runtime.import: no module pipelin"),
     ("pipeline:MyModle", "reactor.yaml: runtime.import: ")],
)  # fmt: skip
def test_a_model_that_a_nested_manifest_cannot_import_is_named_by_its_key(project, model_path, message):
    (project / "reactor.yaml").write_text(f"runtime: {{import: '{model_path}'}}\n")
    manifest = load_manifest(project)
    assert message in refusal(lambda: manifest.model)


def test_a_folder_without_a_manifest_says_how_to_make_one(tmp_path):
    assert "reactor init NAME" in refusal(load_manifest, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n", "config.yml: expected a mapping, got list"),
        (b"just text\n", "config.yml: expected a mapping, got str"),
        (b"a: 1\nb: {c: 1, c: 2}\n", "config.yml:2:11: the key 'c' is given twice"),
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


def test_overrides_are_typed_as_yaml_and_make_the_mappings_they_need(project):
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
    ("text", "doubts"),
    [
        ("width=3", ()),
        ("seed=3", ()),
        ("widht=3", ("--set widht=3: config.yml has no key widht; did you mean width?",)),
        ("sampler.stpes=3", ("--set sampler.stpes=3: config.yml has no key stpes; did you mean sampler.steps?",)),
        ("samplr.steps=3", ("--set samplr.steps=3: config.yml has no key samplr; did you mean sampler?",)),
        (
            "runtime.max_session=2",
            ("--set runtime.max_session=2: --set changes the model's config.yml, and `runtime` is a section of "
             "reactor.yaml: write it there",),
        ),
    ],
)  # fmt: skip
def test_a_value_for_a_key_that_is_hardly_meant_is_a_doubt(project, text, doubts):
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (project / "config.yml").write_text("width: 640\nsampler: {steps: 4}\n")
    assert load_manifest(project, [text]).doubts == doubts


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
        ("reactor_runtime.flashdreams.cam2v:Cam2V", "; Reactor's adapter for FlashDreams is not here: write a ReactorApp"),
        ("dreams:MyModel", "(dreams.py:1); Reactor's adapter for FlashDreams is not here"),
        ("reactor_runtime.models:MyModel", "no module reactor_runtime.models; replace reactor_runtime by reactor_trio"),
        ("old:MyModel", "No module named 'reactor_runtime' (old.py:1); replace reactor_runtime by reactor_trio"),
        ("both:MyModel", "both:MyModel is not a model; replace reactor_runtime by reactor_trio"),
        ("lacking:MyModel", "importing lacking raised ModuleNotFoundError: No module named 'no_such_package'"),
        ("leaving:MyModel", "importing leaving raised SystemExit: 3 (leaving.py:2)"),
    ],
)
def test_a_model_that_cannot_be_imported_is_one_line_that_names_it(tmp_path, model_path, message):
    folder = make_project(
        tmp_path / "broken", f"model: {model_path}\n",
        **{
            "pipeline.py": MODEL.format(marker=1) + "\n    HELPER = 3\n    class Helper: pass\n",
            "types.py": "", "syntax.py": "x = 1\ndef f(:\n", "lacking.py": "\nimport no_such_package\n",
            "leaving.py": "import sys\nsys.exit(3)\n", "old.py": "from reactor_runtime import ReactorApp\n",
            "dreams.py": "from reactor_trio.flashdreams.app import FlashDreamsApp\n",
            "both.py": "MyModel = type('MyModel', (type('App', (), {'__module__': 'reactor_runtime.interface'}),), {})\n",
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
