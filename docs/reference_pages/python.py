"""`python`: an entry for every public name of a module, which autodoc fills from the docstring.

A name that several modules have is described in the first of `MODULES` that has it; the others refer to it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "reference" / "python.md"
MODULES = (
    "reactor_trio.errors", "reactor_trio.interface", "reactor_trio", "reactor_trio.adapters", "reactor_trio.testing",
    "reactor_trio.offline", "reactor_trio.client",
)  # fmt: skip
_ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \|", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def public(module: ModuleType) -> set[str]:
    """Return the names that a module gives to others."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)}


def meanings(name: str) -> dict[str, str]:
    """Return the meaning of each name in the module's table of the page, in its order."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## `")
    section = next(text for text in sections if text.startswith(f"{name}`"))
    return {each: meaning for names, meaning in _ROW.findall(section) for each in re.findall(r"`(\w+)[^`]*`", names)}


def home(name: str, of: str) -> str:
    """Return the module whose page describes a public `name` of the module `of`."""
    value = getattr(importlib.import_module(of), name)
    having = (module for module in MODULES if getattr(importlib.import_module(module), name, None) is value)
    return next((module for module in having if name in public(importlib.import_module(module))), of)


def python(module: str) -> str:
    """Return the entries of a module's public names, in the order of the table in `python.md`."""
    own, elsewhere = [], []
    for name, meaning in meanings(module).items():
        at = home(name, module)
        (own if at == module else elsewhere).append((name, meaning, at))
    text = "".join(_entry(module, name, meaning) for name, meaning, _ in own)
    if elsewhere:
        links = ", ".join(f"{{py:obj}}`{name} <{at}.{name}>`" for name, _, at in elsewhere)
        text += f"\nAlso here: {links}.\n"
    return text


def _entry(module: str, name: str, meaning: str) -> str:
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        inherited = f"   :inherited-members: {_strangers(value, module)}"
        lines = [f".. autoclass:: {module}.{name}", "   :members:", *_bases(value), inherited]
    elif inspect.isfunction(value):
        lines = [f".. autofunction:: {module}.{name}"]
    else:
        plain = _LINK.sub(r"\1", meaning).replace("`", "``")
        lines = [f".. py:data:: {module}.{name}", "", f"   {plain}."]
    return "\n".join(["```{eval-rst}", f".. py:currentmodule:: {module}", "", *lines, "```", ""])


def _bases(kind: type) -> list[str]:
    """Show the bases, if one of them has an entry of its own."""
    shown = any(base in vars(importlib.import_module(module)).values() for base in kind.__bases__ for module in MODULES)
    return ["   :show-inheritance:"] if shown else []


def _strangers(kind: type, module: str) -> str:
    """The bases whose members have an entry of their own, or are not this project's."""
    own = vars(importlib.import_module(module)).values()
    return ",".join(sorted({base.__name__ for base in kind.__mro__[1:] if base in own or not _ours(base)}))


def _ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "reactor_trio"
