"""The promises for failures (`docs/reference/faults.md`), each on a real Ray on this machine."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
import trio
from tests.support.replica_kit import Application, alive, ended, pictures, until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_plainly

from reactor_trio import ConnectionRefused, SessionEnded
from reactor_trio.client import Client
from reactor_trio.client.session_view import internals


async def process_of(client: Client) -> int:
    return int((await client.command("who"))["process"])


async def end_it(client: Client, how: str) -> None:
    process = await process_of(client)
    match how:
        case "killed":
            os.kill(process, signal.SIGKILL)
        case "stopped":
            os.kill(process, signal.SIGSTOP)
        case _:
            with suppress(SessionEnded):
                await client.command(how)


@pytest.mark.parametrize(
    "how", ["killed", *(pytest.param(how, marks=pytest.mark.soak) for how in ("fault", "crash", "hang", "stopped"))]
)
async def test_a_replica_that_is_gone_costs_its_own_session_alone(application: Application, how: str) -> None:
    async with application.client() as other, application.client() as client:
        gone, resumables = await process_of(client), await process_of(other)
        assert gone != resumables
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_it, client, how)
            reason = await ended(client)
            nursery.cancel_scope.cancel()
        assert reason in ("lost", "replica_failed", "model_error")
        await until(holds(lambda: not alive(gone)))
        await pictures(other)
        async with application.client() as again:  # the other replica is taken, so this is a new one
            assert await process_of(again) not in (gone, resumables)
            await pictures(again)
        assert await process_of(other) == resumables


async def test_without_the_gate_sessions_go_on_and_it_comes_back(application: Application) -> None:
    async with application.client() as client:
        before = application.kill("gate")
        await pictures(client, 30)
        async with application.client() as another:
            await pictures(another)
        assert application.processes("gate") != [before]
        # The slot of the session that the first gate gave is counted still.
        assert await process_of(client) != before
        async with application.client() as _:
            pass


@pytest.mark.soak
async def test_the_slots_of_a_dead_gate_are_not_given_twice(application: Application) -> None:
    async with application.client() as one, application.client() as two:
        application.kill("gate")
        await until(partial(trio.to_thread.run_sync, answers, application.url))
        assert await application.allocate() is None
        await pictures(one)
        await pictures(two)


@pytest.mark.soak
async def test_without_the_controller_sessions_go_on(application: Application) -> None:
    async with application.client() as client:
        before = application.kill("controller")
        async with application.client() as another:
            await pictures(another, 30)
        await pictures(client)
        await until(holds(lambda: application.processes("controller") not in ([], [before])))
        await pictures(client)


async def test_no_proxy_of_serve_runs_that_could_fail(application: Application) -> None:
    from tests.support.replica_kit import descendants, title

    assert not [process for process in descendants(application.launcher.pid) if "Proxy" in title(process)]


async def test_replicas_and_gate_run_at_normal_priority(application: Application) -> None:
    ours = [application.launcher.pid, *application.processes("replica"), *application.processes("gate")]
    assert {os.getpriority(os.PRIO_PROCESS, process) for process in ours} == {os.getpriority(os.PRIO_PROCESS, 0)}


async def test_a_client_that_vanishes_frees_its_slot(application: Application) -> None:
    places = [await application.place() for _ in range(2)]
    async with application.client(places[0]), application.client(places[1]) as client:
        assert await application.allocate() is None
        transport = internals(client).connection.transport
        await transport._stream.aclose()  # type: ignore[attr-defined]
        async with application.client() as next_one:
            await pictures(next_one)


async def test_when_all_slots_are_taken_clients_wait_and_get_their_positions(application: Application) -> None:
    def wait(positions: list[int]) -> None:
        with connect_plainly(application.url.replace("http", "ws") + "/v1/queue") as socket:
            with suppress(ConnectionClosed):
                while (message := json.loads(socket.recv()))["type"] == "reactor.queued":
                    positions.append(message["data"]["position"])
                positions.append(0)

    one, two, first, second = await application.place(), await application.place(), [], []
    async with trio.open_nursery() as nursery:
        async with application.client(one), application.client(two):
            for positions in (first, second):
                nursery.start_soon(trio.to_thread.run_sync, wait, positions)
                await until(holds(partial(bool, positions)))
            assert await application.allocate() is None
    assert ([*dict.fromkeys(first)], second[0], second[-1]) == ([1, 0], 2, 0)


@pytest.mark.soak
async def test_a_client_ends_its_lease_with_its_ticket(application: Application) -> None:
    mine, _others = await application.place(), await application.place()
    assert await application.allocate() is None
    base = mine["url"].replace("ws://", "http://").removesuffix("/ws")
    end = urllib.request.Request(f"{base}/v1/sessions/{mine['session_id']}?token={mine['ticket']}", method="DELETE")
    with await trio.to_thread.run_sync(urllib.request.urlopen, end) as answer:
        assert answer.status == 202
    assert (await application.allocate() or {}).get("url") == mine["url"]


@pytest.mark.soak
async def test_a_ticket_is_good_once_at_its_replica_and_in_time(application: Application) -> None:
    one, two = await application.place(), await application.place()
    for place in ({**one, "ticket": two["ticket"]}, {**one, "ticket": one["ticket"][:-4] + "AAAA"}):
        with pytest.raises(ConnectionRefused) as refused:
            async with application.client(place):
                pass
        assert refused.value.status == 401
    async with application.client(one):
        with pytest.raises(ConnectionRefused, match="has been used"):
            async with application.client(one):
                pass
        await application.place()  # that of `two` has run out
        with pytest.raises(ConnectionRefused) as refused:
            async with application.client(two):
                pass
        assert refused.value.status == 401


def holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        await trio.lowlevel.checkpoint()
        return condition()

    return look


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health") as response:
            return response.status == 200
    except (OSError, urllib.error.HTTPError):
        return False
