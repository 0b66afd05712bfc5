"""How a server and a gate end in a replica of Serve, with a stand-in for Serve."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
import trio
from tests.support.replica_kit import PATIENCE

from reactor_trio.replicas import replica as hosted
from reactor_trio.server.runtime_host import ServerThread


class Promising:
    """A server that has promised a slot: it drains until the client comes."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.drains = threading.Event()
        self.client = trio.Event()

    async def serve(self, *, drain: trio.Event, task_status: trio.TaskStatus[Promising]) -> None:
        task_status.started(self)
        await drain.wait()
        self.heard.append("drains")
        self.drains.set()
        await self.client.wait()
        self.heard.append("the client has come")


class OnServe(hosted.HostedServer[Promising]):
    """As Serve makes one."""

    async def __init__(self, promising: Promising) -> None:  # type: ignore[misc]
        self._host = ServerThread(promising.serve, lambda _error: self._ended("it has ended"))
        await self._begin()


async def stopped_by_serve(promising: Promising, listed: asyncio.Event) -> None:
    """What Serve does from the moment in which it takes a replica off its list until it ends the process."""
    replica = OnServe.__new__(OnServe)
    await OnServe.__init__(replica, promising)
    listed.set()
    await asyncio.to_thread(promising.drains.wait, PATIENCE)
    destructor = asyncio.create_task(replica.__del__()) if hasattr(replica, "__del__") else None
    await asyncio.sleep(0)
    promising.heard.append("Serve waits" if destructor is not None and not destructor.done() else "Serve kills it")
    replica._host.post(promising.client.set)
    if destructor is not None:
        await destructor
    promising.heard.append("the process ends")
    replica._host.wait()
    del replica, destructor


@pytest.mark.filterwarnings("ignore:coroutine 'HostedServer.__del__' was never awaited:RuntimeWarning")
def test_serve_ends_a_draining_gate_when_its_promises_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve counts the calls of a gate, of which there are none, and ends it half a second after it begins to stop it."""

    async def scene() -> list[str]:
        listed, promising = asyncio.Event(), Promising()
        monkeypatch.setattr(hosted, "wait_for_notice", listed.wait)
        await stopped_by_serve(promising, listed)
        return promising.heard

    heard = asyncio.run(scene())
    gc.collect()  # Python calls the destructor as well, and does not await it
    assert heard == ["drains", "Serve waits", "the client has come", "the process ends"]
