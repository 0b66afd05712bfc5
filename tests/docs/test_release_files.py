"""What a release says of itself: versions come from tags alone, and what others made is named with its licence."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WEB = ROOT / "clients" / "web"


def bundled() -> dict[str, str]:
    """Each npm package whose code is in the viewer page, and its version."""
    modules = json.loads((WEB / "budgets.json").read_text(encoding="utf-8"))["modules"]
    inputs = {name for output in modules.values() for name in output}
    locked = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    packages = {found[1] for name in inputs if (found := re.search(r"node_modules/((?:@[^/]+/)?[^/]+)", name))}
    return {name: locked[f"node_modules/{name}"]["version"] for name in packages}


def test_what_others_made_is_named_with_its_version_and_licence():
    page = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| (\S+) \(\[text\]\((\S+)\)\)", page, re.MULTILINE)
    assert {name.lower(): version for name, version, _licence, _text in rows} == bundled()
    for _name, _version, licence, text in rows:
        assert licence in PROJECT["license"].split(" AND ")
        assert "Mozilla Public License Version 2.0" in (ROOT / text).read_text(encoding="utf-8").splitlines()[0]


def test_the_licences_are_in_the_wheel():
    assert {"LICENSE", "THIRD_PARTY.md", "LICENSES/*"} == set(PROJECT["license-files"])


def test_the_version_is_that_of_the_last_tag():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert json.loads((WEB / "package.json").read_text(encoding="utf-8"))["version"] == "0.0.0"  # a release has its tag's


def test_each_release_of_the_changelog_has_its_date_and_a_summary():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert [head for head in heads[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head)] == []
    for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[2:]:
        summary = section.strip().split("\n\n")[0]
        assert 1 <= len(summary.splitlines()) <= 10
