"""Commands that need the repository itself, its scripts and examples. They are checked, not run: some take an hour.

A script must exist and know its options, a module and a file must exist, `reactor` must understand its arguments.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from tests.docs.blocks.page import ROOT, Block
from tests.docs.blocks.shell import ASSIGNMENT, commands

from reactor_trio.cli.command_parser import build_parser
from reactor_trio.cli.terminal import UsageError

OPTION = re.compile(r"--[a-z][\w-]*")
#: what a script or module starts
MODULE = re.compile(r"-m ((?:benchmarks|tests)[\w.]*)")
#: programs of the system, whose arguments are not ours to check
SYSTEM = {"git", "mkdir", "npm", "tar"}


def check(block: Block) -> None:
    """Check each command of the block."""
    folder = block.page.parent
    for line, command in commands(block.text):
        for part in re.split(r" && | \| ", command):
            words = shlex.split(part)
            while ASSIGNMENT.fullmatch(words[0]):
                del words[0]
            if words[0] == "cd":
                folder = next((each for each in (folder / words[1], ROOT / words[1]) if each.is_dir()), folder / words[1])
            if wrong := _wrong(words, folder):
                raise block.failed(f"`{part}`: {wrong}", line)


def _wrong(words: list[str], folder: Path) -> str | None:
    """What is wrong with the command, in this folder."""
    program, arguments = words[0], words[1:]
    if Path(program).name in SYSTEM:
        return None
    if program == "cd":
        return None if folder.is_dir() else "no such folder"
    if words[:2] == ["pip", "install"]:
        return _unknown_extra(words[2:])
    if program == "reactor":
        return _not_understood(arguments, folder)
    if Path(program).name == "python":
        return _python(arguments, folder)
    if program.startswith(("scripts/", ".ci/")):
        return _script(program, arguments)
    return 'not a program of the repository; a block that cannot run has "not run" above it'


def _unknown_extra(requirements: list[str]) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for each in map(Requirement, requirements):
        if each.name == project["name"] and (unknown := each.extras - project["optional-dependencies"].keys()):
            return f"no such extra: {', '.join(unknown)}"
    return None


def _not_understood(arguments: list[str], folder: Path) -> str | None:
    try:
        build_parser().parse_args(arguments)
    except UsageError as error:
        return f"reactor does not understand it: {error}"
    return _missing(["reactor.yaml", *arguments], folder)


def _missing(words: list[str], folder: Path) -> str | None:
    missing = [each for each in words if each.endswith((".py", ".yaml")) and not (folder / each).is_file()]
    return f"no such file: {', '.join(missing)}" if missing else None


def _python(arguments: list[str], folder: Path) -> str | None:
    if arguments[0] == "-m":
        text = _source_of(arguments[1])
        return "no such module" if text is None else _unknown_options(arguments[2:], text)
    if missing := _missing(arguments, folder):
        return missing
    return _unknown_options(arguments, (folder / arguments[0]).read_text(encoding="utf-8"))


def _script(name: str, arguments: list[str]) -> str | None:
    """A script takes the options that are in its text or its module's; its first argument names something that is there."""
    script = ROOT / name
    if not os.access(script, os.X_OK):
        return "no such script"
    text = script.read_text(encoding="utf-8")
    for module in MODULE.findall(text):
        text += _source_of(module) or ""
    first = arguments[0] if arguments else ""
    if re.fullmatch(r"[a-z]\w*", first) and not _known(first, text):
        return f"{name} does not know {first}"
    return _missing_paths(arguments) or _unknown_options(arguments, text)


def _known(name: str, text: str) -> bool:
    return name in text or (ROOT / "examples" / name).is_dir() or importlib.util.find_spec(name) is not None


def _missing_paths(words: list[str]) -> str | None:
    missing = [each for each in words if each.startswith(("tests/", "docs/")) and not (ROOT / each).exists()]
    return f"no such path: {', '.join(missing)}" if missing else None


def _unknown_options(arguments: list[str], text: str) -> str | None:
    unknown = [each for each in OPTION.findall(" ".join(arguments)) if each not in text]
    return f"it has no {', '.join(unknown)}" if unknown else None


def _source_of(module: str) -> str | None:
    """The module's text; of a package that of all its modules, with their names."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return "\n".join(f"{each.stem}\n{each.read_text(encoding='utf-8')}" for each in sorted(path.rglob("*.py")))
    path = path.with_suffix(".py")
    return path.read_text(encoding="utf-8") if path.is_file() else None
