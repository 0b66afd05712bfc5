"""`clients/web/package.json` and the wheel's `pyproject.toml` say the same; needs no Node."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = json.loads((ROOT / "clients" / "web" / "package.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_a_wheel_and_an_npm_package_have_one_name():  # and the version of one tag: tests/docs/test_release_files.py
    assert PACKAGE["name"] == PROJECT["name"]


def test_the_wheel_has_a_library_of_another_licence_and_the_npm_package_has_none():
    assert (PACKAGE["license"], PROJECT["license"]) == ("Apache-2.0", "Apache-2.0 AND MPL-2.0")
    clip = (ROOT / "src" / "reactor_trio" / "page" / "clip.js").read_text(encoding="utf-8")
    assert "Mozilla Public" in clip
    assert "https://mozilla.org/MPL/2.0/" in clip


def test_the_lock_file_is_of_the_same_version():
    lock = json.loads((ROOT / "clients" / "web" / "package-lock.json").read_text(encoding="utf-8"))
    assert (lock["name"], lock["version"]) == (PACKAGE["name"], PACKAGE["version"])
    assert lock["packages"][""]["devDependencies"] == PACKAGE["devDependencies"]


def test_an_application_gets_no_dependency_with_it():
    assert "dependencies" not in PACKAGE
    assert PACKAGE["peerDependenciesMeta"] == {name: {"optional": True} for name in PACKAGE["peerDependencies"]}
