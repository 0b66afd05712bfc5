"""OpenCV, if it is installed, limited to the calling thread.

OpenCV's thread pool waits for its next call by spinning: a conversion of 0.15 ms, thirty times a second, kept other cores
busy for up to 1.3 ms each time. If the program imported OpenCV before this module did, its thread setting stays.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from importlib.util import find_spec
from types import ModuleType

# During the import, sys.modules holds a half-initialised cv2, and find_spec("cv2") on another thread raises ValueError.
_importing = threading.Lock()


def opencv() -> ModuleType | None:
    """Return the module `cv2`, or None if it is not installed. Thread-safe: a call during the import waits for it."""
    with _importing:
        return _opencv()


@cache
def _opencv() -> ModuleType | None:
    if find_spec("cv2") is None:
        return None
    imported_before = "cv2" in sys.modules
    import cv2

    if not imported_before:
        cv2.setNumThreads(1)
    return cv2
