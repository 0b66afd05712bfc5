"""A stand-in for the notebook of a page whose Python calls `show`: each of its blocks is a cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class Notebook:
    """As much of IPython's shell as `show` asks for."""

    def __init__(self) -> None:
        self.kernel = self
        self._frames: list[str] = []
        self.events = SimpleNamespace(register=lambda event, function: self._before_cells.append(function))
        self._before_cells: list[Callable[[Any], None]] = []
        self._cells = 0

    def get_parent(self) -> dict[str, Any]:
        """The message that the front end sent to run the cell."""
        return {"metadata": {"cellId": str(self._cells)}}

    def begin_cell(self) -> None:
        """Another cell runs."""
        self._cells += 1
        self._run(self._cells)

    def new_frames(self) -> list[str]:
        """The addresses of the pages that cells have shown since the last call."""
        frames, self._frames = self._frames, []
        return frames

    def end(self) -> None:
        """Run each cell again, empty: what it has shown ends."""
        for cell in range(1, self._cells + 1):
            self._run(cell)

    def _run(self, cell: int) -> None:
        for function in self._before_cells:
            function(SimpleNamespace(cell_id=str(cell)))

    def display(self, value: object, **_: object) -> SimpleNamespace:
        """Show nothing."""
        return SimpleNamespace(update=lambda value, raw=False: None)

    def frame(self, url: str, *_: object, **__: object) -> str:
        """What would be the page's frame."""
        self._frames.append(url)
        return url


@contextmanager
def notebook() -> Iterator[Notebook]:
    """In it Python runs as in a notebook."""
    kernel = Notebook()
    shell, display = ModuleType("IPython"), ModuleType("IPython.display")
    vars(shell).update(get_ipython=lambda: kernel)
    vars(display).update(display=kernel.display, IFrame=kernel.frame)
    before = {name: sys.modules.get(name) for name in ("IPython", "IPython.display")}
    sys.modules.update({"IPython": shell, "IPython.display": display})
    try:
        yield kernel
    finally:
        kernel.end()
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
