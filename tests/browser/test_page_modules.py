"""The page's modules under Node, where tests can call their functions directly."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


SCRIPTS = [
    "protocol.test.mjs", "parts.test.mjs", "sound.test.mjs", "input_parts.test.mjs", "stream_encoder.test.mjs",
    "control_parts.test.mjs", "player.test.mjs", "comeback.test.mjs",
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_modules_under_node(script: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("the page's modules are tested under Node 20 or newer: apt-get install nodejs")
    done = subprocess.run([node, "--test", HERE / script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
