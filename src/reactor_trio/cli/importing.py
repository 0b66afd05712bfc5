"""Modules, and what a model loads, are there to stay: no search for garbage looks through them.

While they are imported it would a dozen times. Later each full search stands in the way of frames: for 10 ms with what the
server itself imports, for 80 ms with torch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing", "settle"]


@contextmanager
def importing() -> Iterator[None]:
    """Around imports: a tenth of their time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def settle() -> None:
    """Search once more, then leave what is there out of every search to come."""
    gc.collect()
    gc.freeze()
