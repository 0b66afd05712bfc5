"""Free memory goes back to the system between sessions, seldom, and once when no session runs any more."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import trio

from reactor_trio.concurrency.free_memory import IDLE, MemoryReclaimer, trimmer


def recorded() -> tuple[MemoryReclaimer, list[float]]:
    """One that takes a second each time, and when it ended."""
    trims: list[float] = []

    async def run(function):
        await trio.sleep(1)
        function()

    return MemoryReclaimer(run, lambda _keep: trims.append(trio.current_time()) or 1, collect=lambda: 0, each=30), trims


async def test_at_most_once_in_its_time(autojump_clock):
    free_memory, trims = recorded()
    began = trio.current_time()
    for _ in range(100):
        await trio.sleep(1)
        await free_memory.after_session()
    assert [at - began for at in trims] == [31, 61, 91]


async def test_a_cancelled_session_waits_for_it(autojump_clock):
    free_memory, trims = recorded()
    await trio.sleep(30)
    with trio.CancelScope() as scope:
        scope.cancel()
        await free_memory.after_session()
    assert len(trims) == 1


@pytest.fixture
async def idling():
    """One at whose idle moments something happens at once: what happened and when, and whether a session runs."""
    happened: list[tuple[str, float]] = []
    sessions: list[str] = []
    began = trio.current_time()

    async def run(function):
        await trio.lowlevel.checkpoint()
        function()

    def note(what):
        happened.append((what, trio.current_time() - began))
        return 1

    free_memory = MemoryReclaimer(run, lambda _keep: note("trim"), lambda: note("collect"), each=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(free_memory.when_idle, lambda: bool(sessions))
        yield free_memory, happened, sessions
        nursery.cancel_scope.cancel()


async def test_the_last_session_of_a_burst_is_followed_by_one_collection_and_a_trim(autojump_clock, idling):
    free_memory, happened, _ = idling
    await trio.sleep(100)
    assert happened == []  # no session was there
    for _ in range(5):
        await free_memory.after_session()
        await trio.sleep(IDLE / 2)
    await trio.sleep(1000)
    at = 100 + 4 * IDLE / 2 + IDLE
    assert happened == [("collect", at), ("trim", at)]
    await free_memory.after_session()
    await trio.sleep(100)
    assert [what for what, _ in happened] == ["collect", "trim", "trim", "collect", "trim"]


async def test_a_session_that_runs_puts_it_off_to_its_own_end(autojump_clock, idling):
    free_memory, happened, sessions = idling
    sessions.append("long")
    free_memory.session_over()
    await trio.sleep(100)
    assert happened == []
    sessions.clear()
    free_memory.session_over()
    await trio.sleep(100)
    assert happened == [("collect", 100 + IDLE), ("trim", 100 + IDLE)]


async def test_a_system_without_a_trim_collects(autojump_clock):
    collected: list[float] = []

    async def run(function):
        await trio.lowlevel.checkpoint()
        function()

    free_memory = MemoryReclaimer(run, None, lambda: collected.append(trio.current_time()) or 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(free_memory.when_idle, lambda: False)
        await free_memory.after_session()
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert len(collected) == 1


async def test_nothing_where_the_system_has_nothing(autojump_clock):
    await MemoryReclaimer(trim=None, each=0).after_session()


@pytest.mark.skipif(not sys.platform.startswith("linux") or trimmer() is None, reason="needs glibc")
def test_the_system_gets_free_memory_back():
    trim = trimmer()
    assert trim is not None
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    pieces = [libc.malloc(4096) for _ in range(5000)]
    for piece in pieces:
        ctypes.memset(piece, 1, 4096)
    for piece in pieces[:-1]:  # the last keeps the heap's end
        libc.free(piece)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    trim(0)
    assert before - resident() > 10 * 2**20
    libc.free(pieces[-1])
