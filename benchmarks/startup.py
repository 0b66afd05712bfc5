"""From nothing to a server that is ready: time, memory, and what is installed.

A process `reactor run` serves a model that loads nothing, and `/health` is asked every 2 ms until it says ready. Memory is
read a second later, when what the server finds out after it is ready is found out, and again after a client has watched for
a moment and left. Beside it the time that importing takes, with a bare interpreter and numpy for comparison.

`started`, `imported`, `resident`, `site_packages_size` and `installed_size` measure any program and package.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

import trio
from packaging.requirements import Requirement

from benchmarks.peers import cpu_seconds, environment, free_port
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.client import connect

MIB = 1 << 20
#: seconds between two questions whether a server is ready
POLL = 0.002
#: seconds after ready until memory is read
SETTLE = 1.0
#: servers whose memory is read
MEMORY_RUNS = 5
#: what pip puts into a fresh environment and no program needs
TOOLS = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils-precedence.pth", "__pycache__")

IMPORTS = {
    "bare interpreter": "pass",
    "numpy": "import numpy",
    "numpy, trio": "import numpy, trio",
    "reactor_trio.interface": "import reactor_trio.interface",
    "reactor_trio": "from reactor_trio import *",
    "reactor_trio.client": "import reactor_trio.client",
}

#: half of what reactor-runtime 3.10.0 takes on such a machine: seconds, MiB, MiB
READY, RESIDENT, INSTALLED = 0.31, 54, 123

MANIFEST = "model: pipeline:Model\nname: nothing\nruntime: {port: PORT}\n"
MODEL = """
import numpy as np
from reactor_trio.interface import Output, ReactorPipeline, Video

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    fps = 30

    def inference(self):
        picture = np.zeros((480, 640, 3), np.uint8)
        while True:
            yield Picture(main_video=picture)
"""


@dataclass(frozen=True)
class Started:
    """A server that is ready: seconds from before its process was made, and of processor time until then."""

    process: subprocess.Popen[bytes]
    seconds: float
    cpu: float
    #: what it says
    log: Path


@dataclass(frozen=True)
class Memory:
    """MiB of a process that are in memory: all, its share of what others use too, and what only it uses."""

    rss: float
    pss: float
    uss: float


@contextmanager
def started(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, probe: Callable[[], bool], timeout: float = 60.0
) -> Iterator[Started]:
    """A process, once `probe` says that it is ready; terminated in the end. `probe` is asked every `POLL` seconds.

    Raises RuntimeError with what the process said if it ends before, TimeoutError after `timeout` seconds.
    """
    with tempfile.NamedTemporaryFile() as said:
        begin = time.monotonic()
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            while not probe():
                if process.poll() is not None:
                    raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {Path(said.name).read_text()}")
                if time.monotonic() - begin > timeout:
                    raise TimeoutError(f"{argv[0]} was not ready within {timeout} s")
                time.sleep(POLL)
            yield Started(process, time.monotonic() - begin, cpu_seconds(process.pid), Path(said.name))
        finally:
            process.terminate()
            process.wait(30)


def http_probe(
    port: int, request: bytes = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", status: int = 200
) -> bool:
    """Whether 127.0.0.1 answers `request` with `status`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as wire:
            wire.sendall(request)
            return wire.recv(64).startswith(b"HTTP/1.1 %d" % status)
    except OSError:
        return False


def websocket_probe(port: int) -> bool:
    """Whether 127.0.0.1 opens a WebSocket at `/ws`; it is closed at once, without a goodbye."""
    return http_probe(
        port,
        b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        101,
    )


def imported(python: str, statement: str, env: Mapping[str, str]) -> float:
    """Seconds that a process takes to run `statement` and end."""
    begin = time.monotonic()
    subprocess.run([python, "-c", statement], env=env, check=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - begin


def resident(pid: int) -> Memory:
    """What of a process is in memory now."""
    found = dict(re.findall(r"^(\w+): +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE))
    own = int(found["Private_Clean"]) + int(found["Private_Dirty"])
    return Memory(int(found["Rss"]) / 1024, int(found["Pss"]) / 1024, own / 1024)


def site_packages(python: str) -> Path:
    """Where that interpreter's packages are."""
    ask = "import sysconfig; print(sysconfig.get_path('platlib'))"
    return Path(subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip())


def site_packages_size(python: str, without: Sequence[str] = TOOLS) -> float:
    """MiB on disk of all packages of an interpreter's environment, but those that `without` names."""
    folder = site_packages(python)
    kept = [entry for entry in folder.iterdir() if re.sub(r"-[^-]*\.dist-info$", "", entry.name) not in without]
    return sum(_on_disk(file) for entry in kept for file in (entry, *entry.rglob("*"))) / MIB


def installed_size(python: str, name: str) -> dict[str, float]:
    """MiB on disk of a distribution and of each that it requires without extras, as its metadata says."""
    known = {_canonical(found.name): found for found in distributions(path=[str(site_packages(python))])}
    sizes: dict[str, float] = {}
    wanted = [name]
    while wanted:
        next_one = _canonical(wanted.pop())
        if next_one in sizes or next_one not in known:
            continue
        sizes[next_one] = _size(known[next_one])
        for text in known[next_one].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
    return sizes


def run(report: Report, *, quick: bool, python: str) -> None:
    """`python` is an interpreter with reactor-trio and what it needs."""
    runs = 3 if quick else 20
    env = environment() if python == sys.executable else dict(os.environ)
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # every start would compile anew what an installation has compiled
    times: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for number in range(runs + 1):
        for name, statement in IMPORTS.items():
            taken = imported(python, statement, env)
            if number:  # the first one compiles
                times[name].append(taken)
    report.table("start, import, end, ms", ["what", *SPREAD], [[name, *spread(taken)] for name, taken in times.items()])

    seconds, cpu, accepted = [], [], []
    idle, after = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("pipeline.py").write_text(MODEL)
        argv = [python, "-m", "reactor_trio", "run"]
        for number in range(runs + 1):
            with _server(argv, env, folder, http_probe) as (server, port):
                if number:  # the first one compiles
                    seconds.append(server.seconds)
                    cpu.append(server.cpu)
                if 0 < number <= MEMORY_RUNS:
                    time.sleep(SETTLE)
                    idle.append(resident(server.process.pid))
                    trio.run(_watch, port)
                    time.sleep(SETTLE)
                    after.append(resident(server.process.pid))
            with _server(argv, env, folder, websocket_probe) as (server, _):
                if number:
                    accepted.append(server.seconds)
    report.table(
        "from the start of the process, ms",
        ["until", *SPREAD],
        [["ready", *spread(seconds)], ["ready, processor time", *spread(cpu)], ["first WebSocket open", *spread(accepted)]],
    )
    report.table(
        "memory, MiB",
        ["what", *SPREAD],
        [
            [f"{kind}, {when}", *spread([getattr(memory, kind) for memory in memories], 1.0)]
            for when, memories in (("idle", idle), ("after one session", after))
            for kind in ("rss", "pss", "uss")
        ],
    )
    sizes = installed_size(python, "reactor-trio")
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    report.table("installed without extras, MiB", ["distribution", "size"], [*largest, ["all", sum(sizes.values())]])
    report.note(f"site-packages of {python}: {site_packages_size(python):.1f} MiB without pip")
    report.bar("process start to ready, p50", spread(seconds)[1], 1000 * READY, "ms")
    report.bar("resident memory, idle, p50", spread([memory.rss for memory in idle], 1.0)[1], RESIDENT, "MiB")
    report.bar("installed without extras", sum(sizes.values()), INSTALLED, "MiB")


@contextmanager
def _server(
    argv: Sequence[str], env: Mapping[str, str], folder: Path, probe: Callable[[int], bool]
) -> Iterator[tuple[Started, int]]:
    port = free_port()
    folder.joinpath("reactor.yaml").write_text(MANIFEST.replace("PORT", str(port)))
    with started(argv, env=env, cwd=folder, probe=lambda: probe(port)) as server:
        yield server, port


async def _watch(port: int) -> None:
    """A session of 30 frames."""
    async with connect(f"ws://127.0.0.1:{port}/ws") as client:
        seen = 0
        async for _ in client.frames():
            seen += 1
            if seen == 30:
                break


def _size(distribution: Distribution) -> float:
    files = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
    if _canonical(distribution.name) == "reactor-trio" and not any(file.name == "errors.py" for file in files):
        import reactor_trio  # installed editable: the files are elsewhere

        files += Path(reactor_trio.__file__).parent.rglob("*")
    return sum(_on_disk(file) for file in files) / MIB


def _on_disk(file: Path) -> int:
    """Bytes of its blocks, as `du` counts; a file that is not there has none."""
    try:
        return os.lstat(file).st_blocks * 512
    except FileNotFoundError:
        return 0


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
