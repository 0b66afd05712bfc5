"""Every example and every template introduces itself, with pictures that are small and presets that its settings take."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("name", [folder.name for folder in PROJECTS if folder.parent == EXAMPLES])
def test_a_readme_begins_with_the_commands_that_start_the_example(name):
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^((?:scripts|reactor|pip).*?)(?:  +#.*)?$", text, re.MULTILINE)
    assert commands[0] == ("scripts/demo" if name == "gradient" else f"scripts/demo {name}")
    assert "reactor run" in commands[1:3]


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_a_project_introduces_itself(folder):
    manifest = load_manifest(folder)
    about = manifest.introduction.about(manifest.model.__reactor_declaration__)  # the import checks the presets
    assert all(about[key] for key in ("title", "description", "hint", "thumbnail"))
    assert 2 <= len(about["examples"]) <= 4
    for name, picture in manifest.introduction.pictures.items():
        assert (picture.kind, len(picture.data) < 15_000) == ("image/webp", True), name
