"""Without torch installed, and with it but unused, nothing imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
{prelude}
import numpy as np, trio, trio.testing
from reactor_trio import Output, OutputError, ReactorPipeline, Video, to_frames
from reactor_trio.testing import open_session

class Picture(Output):
    picture: Video

class Model(ReactorPipeline):
    def inference(self):
        while True:
            yield np.full((4, 6, 3), 7, np.uint8)

async def main():
    async with open_session(Model, step_cost=0.1, video=["jpeg", "raw"]) as client:
        assert (await client.take(3))[-1].data.shape == (4, 6, 3)

trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
import reactor_trio.cli, reactor_trio.client
try:
    to_frames(np.zeros((3, 4, 6), np.float32), range=(0, 1))
except OutputError as error:
    assert "expected a torch tensor, got ndarray" in str(error)
else:
    raise AssertionError
assert not [name for name in sys.modules if name.partition(".")[0] == "torch" and sys.modules[name]]
print("served")
"""


@pytest.mark.parametrize("prelude", ["sys.modules['torch'] = None  # import torch: ModuleNotFoundError", ""])
def test_a_numpy_model_is_served_in_a_fresh_interpreter(prelude: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(prelude=prelude)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
