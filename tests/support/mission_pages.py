"""The code blocks of five pages of Reactor's documentation, made runnable without changing a letter of them.

`blocks/PAGE_NUMBER.txt` holds a block as the page has it; `blocks/README.md` names the pages. `compose` puts a block into a
template at the line `<block>`, at that line's indentation, and its imports at the top of the module. Where a page writes
`...` or comments in place of code, the code follows the block in the template.
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

BLOCKS = Path(__file__).parent / "blocks"

#: what the pages' code takes for granted
IMPORTS = """
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import trio

from reactor_trio.interface import (
    Audio, ClientInfo, InputField, InputState, MessageField, ModelMessage, Output, ReactorModel, ReactorPipeline, Video,
    connected, disconnected, event,
)
"""

#: a stand-in for the author's pipeline: the picture tells the prompt's length (red) and the number of the call (green)
PIPE = """
class Pipe:
    def __init__(self, batch=None):
        self.batch, self.calls, self.hold = batch, 0, None

    def forward(self, prompt="", step=0):
        if self.hold is not None:
            self.hold()  # blocks the thread that calls it, as a network does
        shape = (8, 8, 3) if self.batch is None else (self.batch, 8, 8, 3)
        frame = np.zeros(shape, np.uint8)
        frame[..., 0], frame[..., 1], frame[..., 2] = len(prompt), self.calls, step
        self.calls += 1
        return frame
"""


def block(page: str, number: int) -> str:
    """A block as the page has it."""
    return (BLOCKS / f"{page}_{number}.txt").read_text(encoding="utf-8")


def runnable(page: str, number: int) -> str:
    """The block with the import root that this package has."""
    return textwrap.dedent(block(page, number)).replace("reactor_runtime", "reactor_trio")


def compose(template: str, **blocks: tuple[str, int]) -> str:
    """The template with each line `<name>` replaced by that block, indented as the line is, its imports first."""
    imports, lines = [], []
    for line in template.splitlines():
        name = line.strip()
        if name.startswith("<") and name.endswith(">"):
            indent = line[: len(line) - len(line.lstrip())]
            for code in runnable(*blocks.pop(name[1:-1])).splitlines():
                if code.startswith(("from ", "import ")):
                    imports.append(code)
                else:
                    lines.append(indent + code if code else code)
        else:
            lines.append(line)
    assert not blocks, f"no place for {sorted(blocks)}"
    return "\n".join([*imports, *lines]) + "\n"


class Modules:
    """Imports composed sources as modules of their own, and takes them away again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: list[str] = []

    def load(self, name: str, source: str):
        """The module made of `source`; its file stays for tracebacks."""
        path = self._folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # a model's outputs are those of its module
        self._names.append(name)
        spec.loader.exec_module(module)
        return module

    def forget(self) -> None:
        for name in self._names:
            del sys.modules[name]
