"""`python -m tests.leftovers.growth KIND FOLDER`: how many bytes of this process fifty sessions of a kind of model keep.

These are the bytes that the C library has given and not got back (mallinfo(3)). Python gets all its memory there if it is
started with PYTHONMALLOC=malloc. Resident memory does not tell it for so few sessions: it counts free memory, too, and
Python's own allocator takes that by the MiB. By what other tests had left free, the same sessions grew it by 0 to 3.9 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.leftovers.matrix import cell_of

#: Sessions before them. What fills up to a bound of its own fills here: free lists, Trio's heap of deadlines.
WARM = 8


def kept_by(kind: str, folder: Path) -> int:
    """Run them in a process of their own, and return the bytes."""
    command = [sys.executable, "-m", "tests.leftovers.growth", kind, str(folder)]
    said = subprocess.run(command, env=os.environ | {"PYTHONMALLOC": "malloc"}, stdout=subprocess.PIPE, check=True)
    return int(said.stdout)


def main(kind: str, folder: str) -> None:
    """Print the bytes."""
    cell = cell_of(kind, "client leaves", sessions=50, warm=WARM)
    with pytest.MonkeyPatch.context() as patch:
        left = trio.run(cell.run, patch, Path(folder), clock=trio.testing.MockClock(autojump_threshold=0))
    print(left.kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
