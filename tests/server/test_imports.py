"""What is imported, and above all what is not, by programs that are small and by a server that becomes ready."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reactor_trio

SOURCE = Path(reactor_trio.__file__).parents[1]

#: what a server needs only for its clients, or not at all
LATE = [
    "anyio", "asyncio", "av", "concurrent.futures", "cv2", "doctest", "email", "http.client", "http.server",
    "importlib.metadata", "jwt",
    "numpy.testing", "opentelemetry", "prometheus_client", "pydantic", "reactor_trio.client",
    "reactor_trio.testing", "rich", "structlog", "torch", "trio_websocket", "unittest", "watchfiles", "wsgiref", "wsproto",
]  # fmt: skip

MODEL = f"""
import sys
from reactor_trio.interface import ReactorModel

class Model(ReactorModel):
    def load(self, config):
        raise RuntimeError("imported: " + " ".join(sorted(set(sys.modules) & set({LATE!r}))) + ".")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def imported_by(statement: str, names: list[str]) -> list[str]:
    done = run("-c", f"import sys; {statement}; print(*sorted(set(sys.modules) & set({names!r})))")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("import reactor_trio", ["numpy", "trio", "msgspec", "reactor_trio.interface", "reactor_trio.server"]),
        ("import reactor_trio.interface", [*LATE, "yaml", "h11", "reactor_trio.server", "reactor_trio.session"]),
        ("import reactor_trio.client", ["trio", "av", "cv2", "torch", "reactor_trio.server", "reactor_trio.interface"]),
        ("import reactor_trio.server.serve", LATE),
        ("from reactor_trio import *; assert ReactorPipeline and serve", LATE),
    ],
)
def test_a_program_imports_what_it_asks_for(statement: str, names: list[str]) -> None:
    assert imported_by(statement, names) == []


def test_a_server_is_ready_without_what_only_its_clients_need(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:Model\nname: late\nruntime: {port: 0}\n")
    (tmp_path / "pipeline.py").write_text(MODEL)
    done = run("-m", "reactor_trio", "run", "--path", str(tmp_path))
    assert done.returncode == 1
    assert "imported: ." in done.stderr


def test_type_checkers_see_each_name_where_it_comes_from() -> None:
    (block,) = [node for node in ast.walk(ast.parse(inspect.getsource(reactor_trio)))
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]  # fmt: skip
    seen = {name.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert seen == reactor_trio._MODULE_OF
    assert list(seen) == reactor_trio.__all__
    assert all(getattr(reactor_trio, name) is not None for name in seen)
    assert set(seen) <= set(dir(reactor_trio))


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="module 'reactor_trio' has no attribute 'Videoo'"):
        _ = reactor_trio.Videoo  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Videoo'"):
        from reactor_trio import Videoo  # type: ignore[attr-defined]  # noqa: F401
