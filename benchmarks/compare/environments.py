"""A virtual environment for each system, made once and kept under `.benchmarks/`, all on the Python that the peer needs.

What is installed: ours from this checkout, without and with the codecs between frames, and the peers from the package index,
each by its own published requirements.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.peers import ROOT

FOLDER = ROOT / ".benchmarks"
#: what the comparison runs on; `reactor-runtime` needs at least 3.12
PYTHONS = ("python3.12", "python3.13")

OURS_BASE, OURS, PEER, FASTRTC = "reactor-trio", "reactor-trio[video]", "reactor-runtime", "fastrtc"
REQUIREMENTS = {
    OURS_BASE: [str(ROOT)],
    OURS: [f"{ROOT}[video]"],
    PEER: ["reactor-runtime==3.10.0", "reactor-sdk==1.13.0"],
    FASTRTC: ["fastrtc==0.0.34"],
}
#: those that are this checkout, and so are installed anew each time
FROM_HERE = (OURS_BASE, OURS)


def find_python() -> str:
    """The interpreter: `BENCH_PYTHON`, one on the path, or one of pyenv's. Raises FileNotFoundError."""
    if named := os.environ.get("BENCH_PYTHON"):
        return named
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in PYTHONS:
        kept = [str(path) for path in sorted(root.glob(f"{name.removeprefix('python')}.*/bin/python"))]
        for found in [shutil.which(name), *kept]:
            # A shim that pyenv puts on the path says no for a version that is not chosen.
            if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
                return found
    raise FileNotFoundError("the peer needs Python 3.12 or 3.13; install one or name it: BENCH_PYTHON=/path/to/python")


@cache
def environment_of(name: str) -> Path:
    """The interpreter of the environment `name`, which is made if need be. Raises CalledProcessError if pip fails."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making the environment of {name}", flush=True)
        subprocess.run([find_python(), "-m", "venv", "--clear", folder], check=True)
        _pip(python, *REQUIREMENTS[name])
    elif name in FROM_HERE:
        _pip(python, "--force-reinstall", "--no-deps", str(ROOT))
    return python


def versions(python: Path, *names: str) -> str:
    """The versions of packages there, for people."""
    code = f"from importlib.metadata import version; print(', '.join(f'{{n}} {{version(n)}}' for n in {names!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _pip(python: Path, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
