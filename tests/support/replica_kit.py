"""An application of replicas in processes of its own, its clients, and ways to stop or kill its processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import trio

from reactor_trio import ConnectionRefused, SessionEnded
from reactor_trio.client import Client, connect
from tests.support.free_port import free_port

REPLICAS = Path(__file__).parents[1] / "replicas"
#: Seconds after which what a test waits for does not come any more.
PATIENCE = 120.0

Kind = Literal["replica", "gate", "controller"]
TITLES: dict[Kind, str] = {
    "replica": r"ray::ServeReplica:[\w-]+:replica", "gate": r"ray::ServeReplica:[\w-]+:gate",
    "controller": "ray::ServeController",
}  # fmt: skip


class Application:
    """One application: the address of its gate, and its processes."""

    def __init__(self, launcher: subprocess.Popen[str], port: int) -> None:
        self.launcher = launcher
        self.url = f"http://127.0.0.1:{port}"

    def command(self, line: str) -> str:
        """Tell the launcher, and return its answer."""
        assert self.launcher.stdin is not None
        assert self.launcher.stdout is not None
        self.launcher.stdin.write(line + "\n")
        self.launcher.stdin.flush()
        return answer(self.launcher)

    def processes(self, kind: Kind) -> list[int]:
        """Those of one kind below the launcher."""
        return [process for process in descendants(self.launcher.pid) if re.match(TITLES[kind], title(process))]

    def kill(self, kind: Kind, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to the only one of a kind."""
        (process,) = self.processes(kind)
        os.kill(process, number)
        return process

    async def allocate(self) -> dict[str, Any] | None:
        """A place, without waiting; None if none is free, or no gate is there."""
        return await trio.to_thread.run_sync(self._allocate)

    def _allocate(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v1/sessions", method="POST")) as response:
                place: dict[str, Any] = json.loads(response.read())
                return place
        except (OSError, urllib.error.HTTPError):
            return None

    async def place(self) -> dict[str, Any]:
        """A place, as soon as there is one."""
        found: list[dict[str, Any]] = []

        async def look() -> bool:
            if (place := await self.allocate()) is not None:
                found.append(place)
            return bool(found)

        await until(look)
        return found[0]

    @asynccontextmanager
    async def client(self, place: dict[str, Any] | None = None) -> AsyncIterator[Client]:
        """A session at a place; or at any, and then at another if its replica goes before the client is there."""
        last_try = trio.current_time() + PATIENCE
        async with AsyncExitStack() as stack:
            while True:
                at = place or await self.place()
                calling = connect(at["url"], token=at["ticket"], video=["raw"], timeout=PATIENCE)
                try:
                    client = await stack.enter_async_context(calling)
                    break
                except (ConnectionError, ConnectionRefused):
                    if place is not None or trio.current_time() > last_try:
                        raise
            yield client

    async def whole(self, replicas: int) -> None:
        """Return when so many replicas serve, nobody is served, and the gate gives places."""

        async def is_whole() -> bool:
            if [len(self.processes(kind)) for kind in ("replica", "gate", "controller")] != [replicas, 1, 1]:
                return False
            places = [place for _ in range(replicas) if (place := await self.allocate()) is not None]
            for place in places:
                async with self.client(place) as client:
                    await client.command("who")
            return len({place["url"] for place in places}) == replicas

        await until(is_whole)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when the condition holds. It is checked in a loop, since another process makes it true."""
    with trio.fail_after(PATIENCE):
        while True:
            if await condition():
                return
            await trio.sleep(0.05)


async def pictures(client: Client, count: int = 3) -> None:
    """Return when so many more frames have come."""
    seen = 0
    with trio.fail_after(PATIENCE):
        async for _ in client.frames():
            seen += 1
            if seen == count:
                return


async def ended(client: Client) -> str:
    """The reason of the session's end."""
    with trio.fail_after(PATIENCE):
        try:
            async for _ in client.frames():
                pass
        except SessionEnded as error:
            return error.reason
    assert client.ended is not None
    return client.ended


@contextmanager
def running(*, replicas: int, **options: Any) -> Iterator[Application]:
    """An application; afterwards no process of it is left."""
    port = free_port()
    values = {"path": str(REPLICAS / "model"), "replicas": replicas, "gate_port": port, **options}
    with subprocess.Popen(
        [sys.executable, str(REPLICAS / "launcher.py"), json.dumps(values)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as launcher:  # fmt: skip
        try:
            assert answer(launcher) == "ready"
            application = Application(launcher, port)
            yield application
            below = descendants(launcher.pid)
            assert application.command("quit") == "gone"
            assert launcher.wait(PATIENCE) == 0
            left = {process: title(process) for process in below if alive(process)}
            assert not left
        finally:
            launcher.kill()


def answer(launcher: subprocess.Popen[str]) -> str:
    """The launcher's next answer, without the lines that Ray prints."""
    assert launcher.stdout is not None
    for line in launcher.stdout:
        if line.strip() in ("ready", "updated", "gone"):
            return line.strip()
    return "dead"


def descendants(process: int) -> list[int]:
    """Processes below this one."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            below.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [process]
    while todo:
        children = below.get(todo.pop(), [])
        found += children
        todo += children
    return found


def title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
