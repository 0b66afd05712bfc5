"""OpenCV, where it is installed, on the one thread that calls it.

Its pool of threads waits for the next call by spinning: a conversion of 0.15 ms, thirty times a second, kept other cores
busy for up to 1.3 ms each time. A program that has imported OpenCV by itself keeps the threads that it set.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from importlib.util import find_spec
from types import ModuleType

# While OpenCV is imported it stands in sys.modules half made, and another thread that looks for it gets a ValueError.
_importing = threading.Lock()


def opencv() -> ModuleType | None:
    """The module `cv2`, or None. Any thread may call it; one that comes during the import waits."""
    with _importing:
        return _opencv()


@cache
def _opencv() -> ModuleType | None:
    if find_spec("cv2") is None:
        return None
    brought = "cv2" in sys.modules
    import cv2

    if not brought:
        cv2.setNumThreads(1)
    return cv2
