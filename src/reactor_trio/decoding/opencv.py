"""OpenCV, if it is installed, limited to the calling thread.

OpenCV's thread pool waits for its next call by spinning: a conversion of 0.15 ms, thirty times a second, kept other cores
busy for up to 1.3 ms each time. If the program imported OpenCV before this module did, its thread setting stays.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from types import ModuleType

# During the import, sys.modules holds a half-initialised cv2.
_importing = threading.Lock()


def opencv() -> ModuleType | None:
    """Return the module `cv2`, or None if it is not installed. Thread-safe: a call during the import waits for it."""
    with _importing:
        return _opencv()


@cache
def _opencv() -> ModuleType | None:
    imported_before = "cv2" in sys.modules
    try:
        # Not find_spec: it raises ValueError while the model's own code imports cv2 on another thread.
        import cv2
    except ModuleNotFoundError as error:
        if error.name == "cv2":
            return None
        raise
    if not imported_before:
        cv2.setNumThreads(1)
    return cv2
