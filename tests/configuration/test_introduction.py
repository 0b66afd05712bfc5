"""The manifest's keys by which a model introduces itself: what `about` says, and which mistakes are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from reactor_trio.cli.schema_command import schema_of
from reactor_trio.configuration.introduction import PICTURE_SIZE, hints_of
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface import InputField, InputState, ReactorPipeline, event

PIPELINE = '''
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, UploadedFile, Video

class Picture(Output):
    main_video: Video

class Settings(InputState):
    speed: float = InputField(default=1.0, ge=0.0, le=10.0, group="Motion", unit="m/s")
    seed: int = InputField(default=0, advanced=True)
    mode: str = InputField(default="day", choices=["day", "night"])
    prompt: str = ""
    start: UploadedFile

class MyModel(ReactorPipeline):
    """A garden that grows.

    Indented.
    """

    state: Settings
    output: Picture

    def inference(self):
        yield None
'''
PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
JPEG = b"\xff\xd8\xff\xe0" + b"picture"
WEBP = b"RIFF\x10\x00\x00\x00WEBPVP8 "


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "garden_of_test.py").write_text(PIPELINE)
    (tmp_path / "small.png").write_bytes(PNG)
    (tmp_path / "art").mkdir()
    (tmp_path / "art" / "day.jpg").write_bytes(JPEG)
    (tmp_path / "art" / "night.webp").write_bytes(WEBP)
    yield tmp_path
    sys.modules.pop("garden_of_test", None)


def written(folder: Path, keys: dict, nested: bool = False) -> Path:
    """JSON is YAML."""
    own = {"runtime": {"import": "garden_of_test:MyModel"}} if nested else {"model": "garden_of_test:MyModel"}
    (folder / "reactor.yaml").write_text(json.dumps(own | keys))
    return folder


def refusal(folder: Path, keys: dict) -> str:
    """The error of a manifest with these keys, without the manifest's path."""
    with pytest.raises(ManifestError) as caught:
        _ = load_manifest(written(folder, keys)).model
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{folder / 'reactor.yaml'}: ")
    return text.removeprefix(f"{folder / 'reactor.yaml'}: ")


FULL = {
    "title": "A garden",
    "description": "It **grows**.",
    "author": "The gardener",
    "hint": "W A S D to walk",
    "hints": {"touch": "Walk with the pad", "gamepad": "The left stick walks"},
    "accent": "#E4572e",
    "mark": "small.png",
    "links": {"Paper": "https://example.org/paper", "Code": "http://example.org/code"},
    "thumbnail": "small.png",
    "examples": [
        {"name": "Day", "picture": "art/day.jpg", "values": {"speed": 2, "mode": "day"}},
        {"name": "Again", "picture": "art/day.jpg", "values": {"seed": 7}},
        {"name": "Night", "picture": "art/night.webp"},
    ],
}
HINTS = {
    "speed": {"group": "Motion", "advanced": False, "unit": "m/s"},
    "seed": {"group": None, "advanced": True, "unit": None},
}


@pytest.mark.parametrize("nested", [False, True])
def test_about_has_every_key_of_the_manifest(project, nested):
    manifest = load_manifest(written(project, FULL, nested))
    assert schema_of(manifest)["about"] == {
        "title": "A garden",
        "description": "It **grows**.",
        "author": "The gardener",
        "hint": "W A S D to walk",
        "hints": {"touch": "Walk with the pad", "gamepad": "The left stick walks"},
        "accent": {"light": "#b94625", "dark": "#e55c34"},
        "mark": "pictures/small.png",
        "links": [
            {"label": "Paper", "url": "https://example.org/paper"},
            {"label": "Code", "url": "http://example.org/code"},
        ],
        "thumbnail": "pictures/small.png",
        "examples": [
            {"name": "Day", "picture": "pictures/day.jpg", "values": {"speed": 2, "mode": "day"}},
            {"name": "Again", "picture": "pictures/day.jpg", "values": {"seed": 7}},
            {"name": "Night", "picture": "pictures/night.webp", "values": {}},
        ],
        "settings": HINTS,
    }
    assert {name: one.kind for name, one in manifest.introduction.pictures.items()} == {
        "small.png": "image/png", "day.jpg": "image/jpeg", "night.webp": "image/webp",
    }  # fmt: skip
    assert "picture" not in repr(manifest)


def test_a_manifest_without_these_keys_has_the_docstring_of_the_class(project):
    assert schema_of(load_manifest(written(project, {})))["about"] == {
        "title": None, "description": "A garden that grows.\n\nIndented.", "author": None, "hint": None,
        "hints": {}, "accent": None, "mark": None, "links": [],
        "thumbnail": None, "examples": [], "settings": HINTS,
    }  # fmt: skip


def test_the_hash_does_not_cover_the_introduction(project):
    plain = schema_of(load_manifest(written(project, {})))
    assert schema_of(load_manifest(written(project, FULL)))["schema_hash"] == plain["schema_hash"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"tittle": "A"}, "tittle: unknown key; did you mean title?"),
        ({"title": ""}, "title: Expected str of length >= 1"),
        ({"hint": "a" * 201}, "hint: Expected str of length <= 200"),
        ({"hints": {"foot": "Kick"}}, "hints: expected the keys keyboard, touch, gamepad, got 'foot'"),
        ({"hints": {"touch": ""}}, "hints[...]: Expected str of length >= 1"),
        ({"accent": "red"}, "accent: expected a colour such as '#2f6fd0', got 'red'"),
        ({"accent": "#12345\n"}, "accent: expected a colour such as '#2f6fd0', got '#12345\\n'"),
        ({"mark": "none.png"}, "mark: none.png: cannot be read: No such file or directory"),
        ({"description": "a" * 4001}, "description: Expected str of length <= 4000"),
        ({"links": {"Me": "javascript:alert(1)"}},
         "links.Me: expected an address that begins with https:// or http://, got 'javascript:alert(1)'"),
        ({"links": {"Me": "https://"}}, "links.Me: expected an address that begins with https:// or http://, got 'https://'"),
        ({"links": {f"{n}": "https://a" for n in range(17)}}, "links: Expected object of length <= 16"),
        ({"thumbnail": "none.png"}, "thumbnail: none.png: cannot be read: No such file or directory"),
        ({"thumbnail": "../small.png"}, "thumbnail: '../small.png' is not in the folder of the manifest"),
        ({"thumbnail": "garden_of_test.py"}, "thumbnail: garden_of_test.py: expected a PNG, JPEG or WebP picture"),
        ({"thumbnail": "a b.png"},
         "thumbnail: 'a b.png': a picture's name has letters, digits, dots, dashes and underscores, 64 at most"),
        ({"examples": [{"nam": "A"}]}, "examples[0].nam: unknown key; did you mean examples[0].name?"),
        ({"examples": ["A"]}, "examples[0]: expected a mapping, got str"),
        ({"examples": [{"name": "A"}] * 65}, "examples: Expected array of length <= 64"),
        ({"examples": [{"name": "A", "values": {"speed": 11}}]},
         "examples[0] (A): values.speed: Expected float <= 10.0"),
        ({"examples": [{"name": "A"}, {"name": "B", "values": {"mode": "dusk"}}]},
         "examples[1] (B): values.mode: Invalid enum value 'dusk'"),
        ({"examples": [{"name": "A", "values": {"spede": 1}}]},
         "examples[0] (A): values.spede: the model has no setting of this name; "
         "its settings: speed, seed, mode, prompt, start"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_by_its_key(project, keys, text):
    assert refusal(project, keys) == text


@pytest.mark.parametrize(
    ("manifest", "key"),
    [
        ('title: "\\ud800"', "cannot be written as JSON: "),
        ("examples: [{name: A, values: {prompt: !!set {a, b}}}]", "examples[0] (A): values.prompt: "),
        ("examples: [{name: A, values: {prompt: &a [*a]}}]", "examples[0] (A): values.prompt: cannot be written as JSON: "),
        ("examples: [{name: A, values: {speed: .nan}}]", "examples[0] (A): values.speed: "),
        ("examples: [{name: A, values: {1: 2}}]", "examples[0]: Expected str, got int - at key in $.values"),
        ('thumbnail: "a\\0/b.png"', "thumbnail: "),
    ],
)
def test_values_of_yaml_that_json_cannot_express_are_refused(project, manifest, key):
    (project / "reactor.yaml").write_text(f"model: garden_of_test:MyModel\n{manifest}\n")
    with pytest.raises(ManifestError) as caught:
        _ = load_manifest(project).model
    assert str(caught.value).startswith(f"{project / 'reactor.yaml'}: {key}")


def test_a_file_cannot_be_a_value(project):
    text = refusal(project, {"examples": [{"name": "A", "values": {"start": "some-file"}}]})
    assert text.startswith("examples[0] (A): values.start: ")


def test_an_introduction_has_at_most_64_kib(project):
    def keys(size: int) -> dict:
        return {"description": "A", "examples": [{"name": "A", "values": {"prompt": "p" * size}}]}

    rest = len(msgspec.json.encode(schema_of(load_manifest(written(project, keys(0))))["about"]))
    assert load_manifest(written(project, keys(65536 - rest))).model
    assert refusal(project, keys(65537 - rest)) == "examples: the introduction has 65537 bytes as JSON, at most 65536"


def test_a_picture_has_at_most_2_mib(project):
    (project / "small.png").write_bytes(PNG + bytes(PICTURE_SIZE - len(PNG)))
    load_manifest(written(project, FULL))
    (project / "small.png").write_bytes(PNG + bytes(PICTURE_SIZE - len(PNG) + 1))
    assert refusal(project, FULL) == "thumbnail: small.png: it has more than 2097152 bytes"


def test_a_manifest_names_at_most_64_pictures(project):
    for number in range(64):
        (project / f"{number}.png").write_bytes(PNG)
    keys = {"examples": [{"name": "A", "picture": f"{number}.png"} for number in range(64)]}
    assert load_manifest(written(project, keys)).model
    assert refusal(project, {**keys, "thumbnail": "small.png"}) == "examples: the manifest names 65 pictures, at most 64"


def test_two_pictures_cannot_share_a_name(project):
    (project / "day.jpg").write_bytes(JPEG)
    text = refusal(project, FULL | {"thumbnail": "day.jpg"})
    assert text == "examples[0].picture: art/day.jpg: another picture is called day.jpg, too; rename one of them"


def test_a_link_out_of_the_folder_is_refused(project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.png"
    outside.write_bytes(PNG)
    (project / "link.png").symlink_to(outside)
    assert refusal(project, {"thumbnail": "link.png"}) == "thumbnail: 'link.png' is not in the folder of the manifest"


def test_group_and_unit_are_texts_of_state_fields():
    with pytest.raises(DeclarationError, match=r"InputField: group must be a text that is not empty, not ' '"):
        InputField(default=1, group=" ")
    with pytest.raises(DeclarationError, match=r"InputField: unit must be a text that is not empty, not 3"):
        InputField(default=1, unit=3)
    message = r"(?m)Wrong\.move\.by: group and advanced are for settings: .* \(at .*test_introduction\.py:\d+\)$"
    with pytest.raises(DeclarationError, match=message):

        class Wrong(ReactorPipeline):
            @event
            def move(self, by: float = InputField(default=0.0, group="m")):
                pass


def test_an_event_that_sets_one_value_is_a_setting(project):
    (project / "loop_of_test.py").write_text("""
from reactor_trio.interface import InputField, ReactorModel, event

class Loop(ReactorModel):
    @event
    def set_zoom(self, factor: float = InputField(ge=1, le=4, unit="x")): pass

    @event
    def set_size(self, width: int, height: int): pass
""")
    examples = [{"name": "Near", "values": {"zoom": 4}}]
    about = schema_of(load_manifest(written(project, {"model": "loop_of_test:Loop", "examples": examples})))["about"]
    assert about["settings"] == {"zoom": {"group": None, "advanced": False, "unit": "x"}}
    for values, text in (
        ({"zoom": 5}, "examples[0] (Far): values.zoom: Expected float <= 4.0"),
        ({"size": 5}, "examples[0] (Far): values.size: the model has no setting of this name; its settings: zoom"),
    ):
        assert refusal(project, {"model": "loop_of_test:Loop", "examples": [{"name": "Far", "values": values}]}) == text
    del sys.modules["loop_of_test"]


def test_a_private_field_has_no_hints():
    class Settings(InputState):
        shown: int = InputField(default=1, group="A")
        _hidden: int = InputField(default=1, group="A")
        plain: int = 1

    class Model(ReactorPipeline):
        state: Settings

        def inference(self):
            yield None

    assert hints_of(Model.__reactor_declaration__) == ({"shown": {"group": "A", "advanced": False, "unit": None}}, {})
