"""Runs the code blocks of Reactor's documentation pages without any change to their code.

`blocks/PAGE_NUMBER.txt` holds a block exactly as on its page. `compose` puts the block into a template at the line
`<block>`, with that line's indentation, and moves its imports to the top of the module. Where a page has `...` or a comment
in place of code, the template has that code after the block.
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

BLOCKS = Path(__file__).parent / "blocks"

#: imports that the pages' code assumes
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

#: a stand-in for the author's pipeline: the picture encodes the prompt's length (red) and the number of the call (green)
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
    """Return a block exactly as on its page."""
    return (BLOCKS / f"{page}_{number}.txt").read_text(encoding="utf-8")


def runnable(page: str, number: int) -> str:
    """Return the block with this package's import root."""
    return textwrap.dedent(block(page, number)).replace("reactor_runtime", "reactor_trio")


def compose(template: str, **blocks: tuple[str, int]) -> str:
    """Replace each line `<name>` of the template by that block, with the line's indentation; put its imports first."""
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
    """Imports composed sources as modules, and removes them again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: list[str] = []

    def load(self, name: str, source: str):
        """Import `source` as a module; its file stays for tracebacks."""
        path = self._folder / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # a model looks its outputs up in its module
        self._names.append(name)
        spec.loader.exec_module(module)
        return module

    def forget(self) -> None:
        for name in self._names:
            del sys.modules[name]
