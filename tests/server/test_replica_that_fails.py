"""A server that finds, while it serves, that what is installed cannot be used: each client learns that the server failed."""

from __future__ import annotations

import pytest
import trio
from tests.support.gate_kit import Replicas, Still

from reactor_trio.admission import Claims
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.gate.allocation import Allocation
from reactor_trio.leases.leased_settings import leased_settings
from reactor_trio.server.runtime import Runtime
from reactor_trio.testing import TestServer, open_server


async def fail_to_prepare(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the preparation again, as if its second part had failed now: the imports of the first picture."""

    async def run():
        await trio.lowlevel.checkpoint()
        raise ImportError("libavcodec.so.62: cannot open shared object file")

    monkeypatch.setattr(server.runtime.preparation, "run", run)
    with pytest.raises(ModelFailed, match="libavcodec"):
        await Runtime.prepare(server.runtime)


async def end_of(client) -> str:
    with pytest.raises(SessionEnded) as ended:
        async for _ in client.frames():
            pass
    return ended.value.reason


async def test_a_session_and_a_client_in_the_queue_learn_it(autojump_clock, monkeypatch):
    ends = {}

    async with open_server(Still, queue=4) as server, trio.open_nursery() as nursery:

        async def play():
            async with server.connect() as client:
                ends["session"] = await end_of(client)

        async def wait():
            with pytest.raises(SessionEnded) as ended:
                async with server.connect():
                    raise AssertionError("it has a session")
            ends["queue"] = ended.value.reason

        for client in (play, wait):
            nursery.start_soon(client)
            await trio.sleep(1)
        assert server.runtime.waiting_room.admission.waiting == 1
        await fail_to_prepare(server, monkeypatch)
    assert ends == {"session": "replica_failed", "queue": "replica_failed"}


async def test_in_a_drain_a_session_ends_for_the_reason_that_it_was_told(autojump_clock, monkeypatch):
    async with open_server(Still, drain_notice=60) as server, trio.open_nursery() as nursery:
        async with server.connect() as client:
            nursery.start_soon(server.runtime.drain)
            await trio.sleep(1)
            nursery.start_soon(fail_to_prepare, server, monkeypatch)
            assert await end_of(client) == "draining"


async def test_a_gate_learns_it_of_each_place_that_it_has_promised(autojump_clock, monkeypatch):
    given, key = leased_settings(Settings(max_sessions=2))
    async with open_server(Still, settings=given) as server, trio.open_nursery() as nursery:
        allocation = Allocation(Replicas([(server, key)], 10.0), most=4)
        await nursery.start(allocation.run)
        with allocation.asking(Claims()) as claimed, allocation.asking(Claims()) as reserved:
            await claimed.decided.wait()
            await reserved.decided.wait()
            async with server.connect(token=claimed.admitted.ticket) as client:
                nursery.start_soon(fail_to_prepare, server, monkeypatch)
                assert await end_of(client) == "replica_failed"
        ended = {reason: count for reason, count in allocation.metrics.ended.items() if count}
        assert ended == {"replica_failed": 2}
        nursery.cancel_scope.cancel()
