"""OpenCV's threads: its pool spins between calls, so we use one thread, unless the program imported OpenCV first."""

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


def test_opencv_while_the_model_s_own_code_imports_it() -> None:
    """For a moment, sys.modules then has the native module, without a spec."""
    program = "import sys, types; sys.modules['cv2'] = types.ModuleType('cv2'); "
    program += ALONE.replace("getNumThreads()", "__spec__")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("None", "")


def test_threads_that_need_opencv_during_its_import_all_get_it() -> None:
    program = (
        "import sys, threading\nfrom reactor_trio.decoding.opencv import opencv\n"
        "found = []\n"
        "def ask(first):\n"
        "    while not first and 'cv2' not in sys.modules: pass\n"  # until the first one's import has begun
        "    found.append(opencv().getNumThreads())\n"
        "threads = [threading.Thread(target=ask, args=(number == 0,)) for number in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(found)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str([1] * 4), "")
