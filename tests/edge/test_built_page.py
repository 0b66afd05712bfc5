"""The viewer page's committed files are what `clients/web` gives, as far as hashes can tell; needs no Node."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "clients" / "web"
PAGE = files("reactor_trio") / "page"
BUILT = json.loads((PAGE / "built.json").read_text(encoding="utf-8"))
REMEDY = "run scripts/web build, and commit what it writes"


def differing(folder, hashes):
    """The names whose file is missing or has another SHA-256."""
    present = {name: folder / name for name in hashes if (folder / name).is_file()}
    return [
        name for name, known in hashes.items()
        if name not in present or hashlib.sha256(present[name].read_bytes()).hexdigest() != known
    ]  # fmt: skip


def test_the_page_is_built_from_these_sources():
    assert differing(SOURCES, BUILT["inputs"]) == [], f"clients/web has changed since the page was built: {REMEDY}"


def test_the_page_is_as_it_was_built():
    assert differing(PAGE, BUILT["outputs"]) == [], f"somebody has changed the built page: {REMEDY}"
    assert {file.name for file in PAGE.iterdir()} == {*BUILT["outputs"], "built.json"}, REMEDY


def test_a_changed_or_missing_file_is_seen(tmp_path):
    (tmp_path / "a.ts").write_bytes(b"same")
    (tmp_path / "b.ts").write_bytes(b"changed")
    same = hashlib.sha256(b"same").hexdigest()
    assert differing(tmp_path, {"a.ts": same, "b.ts": same, "c.ts": same}) == ["b.ts", "c.ts"]
