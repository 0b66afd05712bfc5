"""`docs/reference/python.md` names every public name, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import reactor_trio
import reactor_trio.adapters
import reactor_trio.client
import reactor_trio.errors
import reactor_trio.interface
import reactor_trio.offline
import reactor_trio.testing

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
SECTIONS = {section.partition("`")[0]: section for section in TEXT.split("\n## `")[1:]}
MODULES = [
    reactor_trio, reactor_trio.interface, reactor_trio.adapters, reactor_trio.testing, reactor_trio.offline,
    reactor_trio.client, reactor_trio.errors,
]  # fmt: skip


def public(module: ModuleType) -> set[str]:
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)}


def described(section: str) -> dict[str, str]:
    """The names in the first column of the section's tables, each with its meaning."""
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", section, re.MULTILINE)
    return {name: meaning.strip() for names, meaning in rows for name in re.findall(r"`(\w+)[^`]*`", names)}


@pytest.mark.parametrize("module", MODULES[1:], ids=lambda module: module.__name__)
def test_every_public_name_of_a_module_is_described_and_no_other(module):
    assert set(described(SECTIONS[module.__name__])) == public(module)


def test_the_root_has_the_interface_and_what_its_own_section_describes():
    own = set(described(SECTIONS["reactor_trio"]))
    assert public(reactor_trio) == own | public(reactor_trio.interface)
    assert not own & public(reactor_trio.interface)


def test_no_name_is_without_a_meaning():
    assert all(meaning for section in SECTIONS.values() for meaning in described(section).values())
