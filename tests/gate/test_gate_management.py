"""A gate answers probes on the port of `runtime.management` too, whatever happens to its other port."""

from __future__ import annotations

import logging
import socket
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import pytest
import trio
from tests.edge.test_reserved_slots import UPGRADE, ask
from tests.support.free_port import free_port

from reactor_trio.configuration.settings import AuthSettings, LimitSettings, ManagementSettings, Settings
from reactor_trio.gate.serve_gate import serve_gate

TOKEN = "a-token-that-nobody-guesses"


class NoServers:
    """A `Lessor` of a gate whose servers are all down."""

    async def lease(self, *_: Any, **__: Any) -> Any:
        await trio.sleep_forever()


async def test_a_full_gate_answers_on_both_ports(caplog):
    caplog.set_level(logging.INFO)
    port = free_port()
    settings = Settings(
        port=0, auth=AuthSettings(token=TOKEN), limits=LimitSettings(connections=1), management=ManagementSettings(port=port)
    )
    serving = partial(serve_gate, NoServers(), settings, schema={"name": "mine"}, most=4)
    async with trio.open_nursery() as nursery, AsyncExitStack() as there:
        gate = await nursery.start(lambda task_status: serving(task_status=task_status))
        await there.enter_async_context(await trio.open_tcp_stream("127.0.0.1", gate.port))
        bearer = f"authorization: Bearer {TOKEN}"
        assert f"/health, /ready, /metrics are also at http://127.0.0.1:{port}/ (runtime.management)" in caplog.messages
        for each in (gate.port, port):
            assert (await ask(each, "/health"))[0] == 200
            assert (await ask(each, "/ready"))[0] == 200
            assert (await ask(each, "/metrics", bearer))[0] == 200
        assert (await ask(port, "/metrics"))[0] == 401
        assert (await ask(port, "/v1/sessions", bearer))[0] == 404
        assert (await ask(gate.port, "/schema", bearer))[0] == 503
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("turns", [*range(1, 7)] * 4)
async def test_a_client_that_connects_while_the_last_connection_of_a_drained_gate_ends_harms_nothing(turns):
    """In each turn of the loop around that end. Trio runs ready tasks in any order, hence the repetitions."""
    drain, listeners = trio.Event(), await trio.open_tcp_listeners(0, host="127.0.0.1")
    serving = partial(serve_gate, NoServers(), Settings(), schema={"name": "mine"}, most=4, listeners=listeners, drain=drain)
    async with trio.open_nursery() as nursery:
        gate = await nursery.start(lambda task_status: serving(task_status=task_status))
        async with await trio.open_tcp_stream("127.0.0.1", gate.port) as stream:
            await stream.send_all(b"GET /ready HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            drain.set()
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            with suppress(OSError):  # the gate has closed its port
                socket.create_connection(("127.0.0.1", gate.port), 1).close()


async def test_a_gate_tells_the_name_of_its_model_to_no_stranger():
    settings = Settings(port=0, auth=AuthSettings(token=TOKEN))
    serving = partial(serve_gate, NoServers(), settings, schema={"name": "secret-name"}, most=4)
    async with trio.open_nursery() as nursery:
        gate = await nursery.start(lambda task_status: serving(task_status=task_status))
        for path in ("/ws?model=other&follow=1", "/ws?role=king&follow=1", "/v1/queue?model=other"):
            status, head = await ask(gate.port, path, *UPGRADE)
            assert (status, "reactor-refusal: token_missing" in head) == (401, True), path
        status, head = await ask(gate.port, f"/ws?model=other&follow=1&token={TOKEN}", *UPGRADE)
        assert (status, "reactor-refusal: wrong_model" in head) == (404, True)
        nursery.cancel_scope.cancel()
