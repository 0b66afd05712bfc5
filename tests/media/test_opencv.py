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


def test_threads_that_ask_for_it_at_the_same_time_all_get_it() -> None:
    program = (
        "import threading\nfrom reactor_trio.decoding.opencv import opencv\n"
        "together, found = threading.Barrier(8), []\n"
        "def ask():\n    together.wait()\n    found.append(opencv().getNumThreads())\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(found)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str([1] * 8), "")
