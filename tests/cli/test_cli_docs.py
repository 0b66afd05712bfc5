"""`docs/reference/cli.md` documents every command and option, and no other."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from reactor_trio.cli.command_parser import build_parser

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
(COMMANDS,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
SECTIONS = {section.split("`")[0]: section for section in TEXT.split("\n## `reactor ")[1:]}


def test_every_command_has_a_section_and_every_section_a_command():
    assert [heading.split()[0] for heading in SECTIONS] == list(COMMANDS.choices)


@pytest.mark.parametrize("command", COMMANDS.choices)
def test_a_commands_section_lists_its_options_with_their_values(command):
    documented = set()
    for heading, section in SECTIONS.items():
        if heading.split()[0] == command:
            documented = {tuple(row.split()) for row in re.findall(r"^\| `(--[^`]+)` \|", section, re.MULTILINE)}
            positional = tuple(heading.split()[1:])
    options = set()
    names = []
    for action in COMMANDS.choices[command]._actions:
        assert action.help, f"{command} {action.dest} has no help"
        if not action.option_strings:
            names.append(f"[{action.metavar}]" if action.nargs == "?" else action.metavar)
        elif action.dest != "help":
            value = () if action.nargs == 0 else (action.metavar or action.dest.upper(),)
            options.add((action.option_strings[-1], *value))
    assert documented == options
    assert positional == tuple(names)
