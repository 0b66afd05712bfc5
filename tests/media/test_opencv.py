"""OpenCV's threads: its pool spins between two calls, so ours run on one; whoever brought it keeps what they set."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("cv2")

ALONE = "from reactor_trio.decoding.opencv import opencv; print(opencv().getNumThreads())"
BROUGHT = "import cv2; cv2.setNumThreads(3); " + ALONE


@pytest.mark.parametrize(("program", "threads"), [(ALONE, "1"), (BROUGHT, "3")])
def test_threads_of_opencv(program: str, threads: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == threads
