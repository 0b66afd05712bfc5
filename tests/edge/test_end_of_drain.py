"""The end of a drain, of a server, a gate and a standby: it waits for requests that have begun, and for nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.transport_peers import answers, read_all

from reactor_trio import Output, ReactorPipeline, Video
from reactor_trio.configuration.settings import ManagementSettings, Settings
from reactor_trio.gate.serve_gate import serve_gate
from reactor_trio.leases.holder import Lessor
from reactor_trio.server.serve import serve
from reactor_trio.server.standby import serve_standby

HEAD = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n"
GRACE = 2.0


class Picture(Output):
    main_video: Video


class Black(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


class NoServer(Lessor):
    async def lease(self, session_id: str, on_message: Any) -> None:
        await trio.sleep_forever()

    async def silent(self, granted: Any) -> None:
        pass


@dataclass
class Port:
    """What serves at a Unix socket.

    Attributes:
        drain: begins its drain.
        over: set at its end.
        streams: closes those of its clients.
        ended_at: the virtual time of its end.
    """

    path: Path
    drain: Callable[[], object]
    over: trio.Event
    streams: AsyncExitStack
    serving: Any = None
    ended_at: float | None = None

    async def connect(self) -> trio.SocketStream:
        return await self.streams.enter_async_context(await trio.open_unix_socket(self.path))

    async def begin_request(self) -> trio.SocketStream:
        stream = await self.connect()
        await stream.send_all(HEAD)
        return stream


Begin = Callable[..., Awaitable[None]]


async def server(listener: trio.SocketListener, drain: trio.Event, settings: Settings, task_status: Any) -> None:
    await serve(Black, settings=settings, listeners=[listener], drain=drain, task_status=task_status)


async def gate(listener: trio.SocketListener, drain: trio.Event, settings: Settings, task_status: Any) -> None:
    given = {"schema": {"name": "Black"}, "most": 4, "listeners": [listener], "drain": drain}
    await serve_gate(NoServer(), settings, **given, task_status=task_status)


async def standby(listener: trio.SocketListener, drain: trio.Event, settings: Settings, task_status: Any) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_standby, [listener], settings, "Black", "line 7 is wrong")
        task_status.started()
        await drain.wait()
        nursery.cancel_scope.cancel()  # as its supervisor does


@asynccontextmanager
async def serving(way: Begin, path: Path, **settings: Any) -> AsyncIterator[Port]:
    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(str(path))
    sock.listen()
    drain = trio.Event()
    port = Port(path, drain.set, trio.Event(), AsyncExitStack())

    async def run(task_status: trio.TaskStatus[Any]) -> None:
        await way(trio.SocketListener(sock), drain, Settings(drain_grace=GRACE, **settings), task_status)
        port.ended_at = trio.current_time()
        port.over.set()

    with sock:
        async with port.streams, trio.open_nursery() as nursery:
            port.serving = await nursery.start(run)
            yield port
            nursery.cancel_scope.cancel()


async def pass_time(clock: trio.testing.MockClock, seconds: float) -> None:
    """In turns of the loop as in real life: the loop takes a jump of seconds for time that it has lost."""
    for _ in range(round(8 * seconds)):
        clock.jump(1 / 8)
        await trio.testing.wait_all_tasks_blocked()


WAYS = pytest.mark.parametrize("way", [server, gate, standby])


@WAYS
async def test_connections_without_a_request_do_not_hold_up_the_end(way, tmp_path, mock_clock):
    async with serving(way, tmp_path / "port") as port:
        silent = [await port.connect() for _ in range(3)]
        kept_alive = await port.begin_request()
        await kept_alive.send_all(b"\r\n")
        assert (await kept_alive.receive_some()).startswith(b"HTTP/1.1 ")
        port.drain()
        await port.over.wait()
        assert port.ended_at == 0
        assert [await read_all(stream) for stream in (*silent, kept_alive)] == [b""] * 4


@WAYS
async def test_a_request_that_has_begun_is_answered_before_the_end(way, tmp_path, mock_clock):
    async with serving(way, tmp_path / "port") as port:
        stream = await port.begin_request()
        await trio.testing.wait_all_tasks_blocked()
        port.drain()
        await trio.testing.wait_all_tasks_blocked()
        await pass_time(mock_clock, GRACE / 2)
        assert not port.over.is_set()
        await stream.send_all(b"\r\n")
        (answer,) = answers(await read_all(stream))
        assert answer.headers["connection"] == "close"
        await stream.aclose()
        await port.over.wait()
        assert port.ended_at == GRACE / 2


@WAYS
async def test_a_request_that_is_never_complete_holds_up_the_end_for_the_grace_at_most(way, tmp_path, mock_clock):
    async with serving(way, tmp_path / "port") as port:
        await port.begin_request()
        await trio.testing.wait_all_tasks_blocked()
        port.drain()
        await trio.testing.wait_all_tasks_blocked()
        await pass_time(mock_clock, GRACE)
        await port.over.wait()
        assert port.ended_at == GRACE


async def test_a_request_at_the_management_port_is_answered_before_the_end(tmp_path, mock_clock):
    management = ManagementSettings(host="127.0.0.1", port=0)
    async with serving(server, tmp_path / "port", management=management) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port.serving.management_port)
        port.streams.push_async_callback(stream.aclose)
        await stream.send_all(HEAD)
        await trio.testing.wait_all_tasks_blocked()
        port.drain()
        await trio.testing.wait_all_tasks_blocked()
        await pass_time(mock_clock, GRACE / 2)
        await stream.send_all(b"\r\n")
        (answer,) = answers(await read_all(stream))
        assert answer.status == 503
        await stream.aclose()
        await port.over.wait()
        assert port.ended_at == GRACE / 2


async def test_a_standby_that_is_cancelled_as_it_begins_ends() -> None:
    """Its supervisor may be stopped at any moment. Before, this waited for ever: `faulthandler_timeout` ends such a run."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await serve_standby([], Settings(), "Black", "line 7 is wrong")
    assert scope.cancelled_caught
