"""The types that a type checker finds in an author's model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reactor_trio

SOURCE = str(Path(reactor_trio.__file__).parent.parent)

QUICKSTART = '''
from dataclasses import dataclass
from typing import Any

import numpy as np

from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video


@dataclass
class MyOutput(Output):
    main_video: Video


@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")


class MyModel(ReactorPipeline):
    state: MyState
    buffer_size = 8

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)

    def inference(self):
        reveal_type(self.state.brightness)
        reveal_type(self.connected.is_set())
        while True:
            yield MyOutput(main_video=np.zeros((4, 4, 3), np.uint8))


MyState(brightness="much")
MyOutput()
'''


@pytest.mark.needs("mypy")
@pytest.mark.soak  # the checker parses numpy each time: 10 s and more
def test_a_type_checker_knows_the_fields_of_the_state(tmp_path: Path) -> None:
    model = tmp_path / "pipeline.py"
    model.write_text(QUICKSTART)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--check-untyped-defs", "--config-file=", str(model)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "MYPYPATH": SOURCE},
    )  # fmt: skip
    lines = [line.partition(": ")[2] for line in checked.stdout.splitlines() if line.startswith("pipeline.py")]
    assert 'note: Revealed type is "builtins.float"' in lines or 'note: Revealed type is "float"' in lines
    assert 'note: Revealed type is "builtins.bool"' in lines or 'note: Revealed type is "bool"' in lines
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 2, checked.stdout
    assert 'Argument "brightness" to "MyState" has incompatible type "str"; expected "float"' in errors[0]
    assert 'Missing positional argument "main_video"' in errors[1]
