"""What a model's `load` gets: the configuration as a dict, or the path of a file."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml

from reactor_trio.configuration.load_argument import load_argument
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import ManifestError
from reactor_trio.interface.manifest_files import files_of_manifest
from reactor_trio.testing import open_session

MODEL = """
from pathlib import Path
import numpy as np
from reactor_trio import Output, ReactorApp, Video

class Picture(Output):
    picture: Video

class App(ReactorApp):
    output: Picture
    def load(self, config_path):
        self.path = config_path
    def generate(self, input):
        return Picture(picture=np.zeros((2, 2, 3), np.uint8))
"""


class Loads:
    def by_name(self, config_path): ...
    def by_type(self, given: Path): ...
    def by_text(self, given: Path | None = None): ...
    def by_union(self, given: Path | None): ...
    def by_optional(self, given: Optional[Path]): ...  # noqa: UP045
    def as_dict(self, config: dict[str, Any]): ...
    def untyped(self, config): ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "path_model.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("model: path_model:App\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text("width: 3\n")
    return tmp_path


@pytest.mark.parametrize("name", ["by_name", "by_type", "by_text", "by_union", "by_optional"])
def test_load_gets_the_kind_of_argument_that_it_declares(name: str, project: Path) -> None:
    load = getattr(Loads(), name)
    manifest = load_manifest(project)
    with files_of_manifest(manifest.files):
        assert load_argument(load, manifest.config) == project / "config.yml"
    assert load_argument(load, {}) is None


@pytest.mark.parametrize("name", ["as_dict", "untyped"])
def test_a_dict_otherwise(name: str, project: Path) -> None:
    manifest = load_manifest(project)
    with files_of_manifest(manifest.files):
        assert load_argument(getattr(Loads(), name), manifest.config) == {"width": 3}


def test_values_that_were_replaced_are_in_a_private_file(project: Path) -> None:
    manifest = load_manifest(project, ["width=4", "deep.er=[1, 2]"])
    with files_of_manifest(manifest.files):
        path = load_argument(Loads().by_name, manifest.config)
    assert path != project / "config.yml"
    assert yaml.safe_load(path.read_text()) == {"width": 4, "deep": {"er": [1, 2]}}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_values_that_yaml_cannot_hold() -> None:
    with pytest.raises(ManifestError, match=r"load\(\) takes the path of a file, and YAML cannot hold the values"):
        load_argument(Loads().by_name, {"x": object()})


async def test_an_app_without_a_manifest(autojump_clock: object, project: Path) -> None:
    model = load_manifest(project).model
    async with open_session(model) as client:
        assert client.server.model.path is None
    async with open_session(model, config={"width": 5}) as client:
        assert yaml.safe_load(client.server.model.path.read_text()) == {"width": 5}
    with pytest.raises(ManifestError, match="YAML cannot hold"):
        async with open_session(model, config={"width": object()}):
            pass
