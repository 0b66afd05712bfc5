"""What is imported, and above all what is not, by programs that are small and by a server that becomes ready."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import reactor_trio

SOURCE = Path(reactor_trio.__file__).parents[1]

#: what only applications of several replicas, their tools and models need
ELSEWHERE = [
    "multiprocessing", "ray", "torch", "reactor_trio.deployment", "reactor_trio.distributed", "reactor_trio.gate",
    "reactor_trio.loadtest", "reactor_trio.replicas",
]  # fmt: skip
#: what a server needs only for its clients, or not at all
LATE = [
    *ELSEWHERE,
    "anyio", "asyncio", "av", "concurrent.futures", "cv2", "difflib", "doctest", "email", "http.client", "http.server",
    "importlib.metadata", "jwt",
    "numpy.testing", "opentelemetry", "prometheus_client", "pydantic", "reactor_trio.client",
    "reactor_trio.testing", "rich", "structlog", "trio_websocket", "unittest", "watchfiles", "wsgiref", "wsproto",
]  # fmt: skip

#: what all names of the package together bring: of ours, by package, and of others at most
OURS = {
    "admission", "cli", "concurrency", "configuration", "connection", "crossing", "decoding", "descriptors", "edge",
    "error_catalog", "errors", "execution", "interface", "interpreter", "kinds", "leases", "lifecycle", "log", "lost_part",
    "media",
    "notebook", "pacing", "placement", "plain_text", "processors", "protocol", "server", "session", "standard_streams",
    "telemetry", "transport",
}  # fmt: skip
OTHERS = {
    "attr", "attrs", "h11", "idna", "msgspec", "numpy", "outcome", "simplejpeg", "sniffio", "sortedcontainers", "trio",
    "typing_extensions", "yaml",
}  # fmt: skip

MODEL = f"""
import sys
import types
from reactor_trio.interface import Output, ReactorModel, Video

class Picture(Output):  # without a track there is a warning, and the first line of the log is rendered
    main: Video

class Model(ReactorModel):
    def load(self, config):
        raise RuntimeError("imported: " + " ".join(sorted(set(sys.modules) & set({LATE!r}))) + ".")
"""

SERVED = """
from reactor_trio import *

class Picture(Output):
    main: Video

class Model(ReactorPipeline):
    output: Picture
    def inference(self):
        yield from ()
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


def test_the_package_alone_brings_nothing_and_its_names_what_a_server_needs() -> None:
    assert brought_by("import reactor_trio") == {"reactor_trio"}
    brought = brought_by("from reactor_trio import *")
    assert {name.split(".")[1] for name in brought if name.startswith("reactor_trio.")} == OURS
    compiled = {"_cython", "cython_runtime"}  # what C extensions enter by themselves
    others = {top for name in brought if not (top := name.partition(".")[0]).startswith(tuple(compiled))}
    assert others - {"reactor_trio"} <= OTHERS


def brought_by(statement: str) -> set[str]:
    """What is not the standard library's."""
    done = run("-c", f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))")
    assert done.returncode == 0, done.stderr
    return {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


def test_a_server_alone_never_imports_what_only_replicas_need(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:Model\nname: alone\nruntime: {port: 0}\n")
    (tmp_path / "pipeline.py").write_text(SERVED)
    log = tmp_path / "log"
    command = [sys.executable, "-X", "importtime", "-m", "reactor_trio", "run", "--path", str(tmp_path)]
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        assert any(" is ready: " in line for line in process.stdout), log.read_text()
        process.terminate()
        assert process.wait(120) == 0
    imported = {line.rpartition("|")[2].strip() for line in log.read_text().splitlines() if line.startswith("import time:")}
    assert "reactor_trio.server.serve" in imported
    assert imported & set(ELSEWHERE) == set()


def test_a_server_is_ready_without_what_only_its_clients_need(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:Model\nname: late\nruntime: {port: 0}\n")
    (tmp_path / "pipeline.py").write_text(MODEL)
    done = run("-m", "reactor_trio", "run", "--path", str(tmp_path))
    assert done.returncode == 1
    assert "imported: ." in done.stderr


def public(module: str) -> list[str]:
    """The names that `from module import *` gives a type checker."""
    found = importlib.import_module(module)
    names = [name for name, value in vars(found).items() if name[0] != "_" and not isinstance(value, types.ModuleType)]
    return getattr(found, "__all__", names)


def test_type_checkers_see_each_name_where_it_comes_from() -> None:
    (block,) = [node for node in ast.walk(ast.parse(inspect.getsource(reactor_trio)))
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]  # fmt: skip
    seen: dict[str, str | None] = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            names = public(str(node.module)) if node.names[0].name == "*" else [str(name.asname) for name in node.names]
            seen = dict.fromkeys(names, node.module) | seen
    assert seen == reactor_trio._MODULE_OF
    assert sorted(seen) == sorted(reactor_trio.__all__)
    assert all(getattr(reactor_trio, name) is not None for name in seen)
    assert set(seen) <= set(dir(reactor_trio))


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="module 'reactor_trio' has no attribute 'Videoo'"):
        _ = reactor_trio.Videoo  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Videoo'"):
        from reactor_trio import Videoo  # type: ignore[attr-defined]  # noqa: F401


def test_what_the_first_client_needs_is_imported_before_it_comes() -> None:
    """`prepare` and `prepare_rest` run in a worker, so that the loop of a server with clients imports none of it."""
    prepared = (
        "from reactor_trio.media import CodecSettings; settings = CodecSettings(); "
        "from reactor_trio.server.preparation import prepare, prepare_rest; prepare(settings); prepare_rest(settings)"
    )
    names = ["cv2", "prometheus_client", "reactor_trio.transport.websocket", "trio_websocket"]
    assert imported_by(prepared, names) == names
