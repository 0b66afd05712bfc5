"""Instructions of two source trees beside each other, counted by callgrind: the same on a busy machine as on a quiet one.

    python -m benchmarks.instructions OLD/src NEW/src

Each tree runs the same small programs: imports, and frames from a server in memory, in virtual time, over the real HTTP and
WebSocket framing. What one frame takes is the difference between two runs of unlike length, so that start and end are not in
it. Each program runs once before it is counted, so that no bytecode is compiled meanwhile. Exit status 1 if the new tree
takes more than `--most` times what the old one takes, or more than `STEP` times a pipeline's frame for the step of an app.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Report

FEW, MANY = 100, 1100
#: the step of an app to the frame of a pipeline, at most
STEP = 1.05

IMPORTS = {
    "import reactor_trio": "import reactor_trio",
    "all names of reactor_trio": "from reactor_trio import *",
    "reactor_trio.server.serve": "import reactor_trio.server.serve",
}

SERVED = """
import numpy as np, trio, trio.testing
from reactor_trio.interface import InputState, Output, Video
from reactor_trio.testing import open_server

FRAME = np.full((48, 64, 3), 127, np.uint8)
FRAME.flags.writeable = False

class Picture(Output):
    main: Video

class Controls(InputState):
    level: int = 0

{model}

async def main():
    async with open_server(Model, step_cost=0.01, websocket=True) as server, server.connect() as client:
        await client.take({frames})

trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
"""

PIPELINE = """
from reactor_trio.interface import ReactorPipeline

class Model(ReactorPipeline):
    output: Picture
    state: Controls
    fps = 30
    def inference(self):
        while True:
            yield Picture(main=FRAME)
"""

APP = """
from reactor_trio.interface import ReactorApp

class Model(ReactorApp):
    output: Picture
    state: Controls
    fps = 30
    async def process_input(self):
        return self.state.level
    def generate(self, level):
        return Picture(main=FRAME)
    async def process_output(self, outcome):
        return outcome.to_output()
"""


def counted(source: Path, program: str) -> int:
    """Instructions of a program that imports this tree. Raises RuntimeError with what it said if it fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env = kept | {"PYTHONPATH": str(source), "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    bare = [sys.executable, "-c", program]
    for command in (bare, ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *bare]):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{source}: it ended with {done.returncode}: {done.stderr[-2000:]}")
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind said no number: {done.stderr[-2000:]}")
    return int(found[1])


def figures(source: Path) -> dict[str, float]:
    """Instructions by what they are for."""
    imports = {name: float(counted(source, program)) for name, program in IMPORTS.items()}
    many, frame = served(source, PIPELINE)
    return imports | {f"{MANY} frames, start and end": many, "a frame": frame}


def served(source: Path, model: str) -> tuple[float, float]:
    """Instructions of a server of this model: for `MANY` frames with start and end, and for one frame."""
    few, many = (counted(source, SERVED.format(model=model, frames=frames)) for frames in (FEW, MANY))
    return float(many), (many - few) / (MANY - FEW)


def main() -> int:
    """As said above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--most", type=float, default=1.03, help="the ratio to bear (default: %(default)s)")
    given = parser.parse_args()
    old, new = figures(given.old.resolve()), figures(given.new.resolve())
    _, step = served(given.new.resolve(), APP)
    report = Report("instructions")
    report.table(
        "instructions, thousands", ["", "old", "new", "ratio"],
        [[name, old[name] / 1000, new[name] / 1000, f"{new[name] / old[name]:.4f}"] for name in old],
    )  # fmt: skip
    for name in old:
        report.bar(f"{name}: new to old", new[name] / old[name], given.most, "times")
    report.bar("the step of an app to the frame of a pipeline", step / new["a frame"], STEP, "times")
    return int(any(not bar["met"] for bar in report.bars))


if __name__ == "__main__":
    sys.exit(main())
