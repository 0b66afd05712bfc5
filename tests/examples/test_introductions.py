"""Every example and every template introduces itself, with pictures that are small and presets that its settings take."""

from __future__ import annotations

from pathlib import Path

import pytest

import reactor_trio
from reactor_trio.configuration.manifest import load_manifest

ROOT = Path(__file__).parents[2]
TEMPLATES = Path(reactor_trio.__file__).parent / "cli" / "templates"
EXAMPLES = ROOT / "examples"
PROJECTS = [
    folder for parent in (EXAMPLES, EXAMPLES / "web" / "studio", TEMPLATES) for folder in sorted(parent.iterdir())
    if (folder / "reactor.yaml").is_file()
]  # fmt: skip


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_project_introduces_itself(folder):
    manifest = load_manifest(folder)
    about = manifest.introduction.about(manifest.model.__reactor_declaration__)  # the import checks the presets
    assert all(about[key] for key in ("title", "description", "hint", "thumbnail"))
    assert 2 <= len(about["examples"]) <= 4
    for name, picture in manifest.introduction.pictures.items():
        assert (picture.kind, len(picture.data) < 15_000) == ("image/webp", True), name
