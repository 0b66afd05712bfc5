"""Free memory goes back to the system between sessions, seldom, and also when the session was cancelled."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import trio

from reactor_trio.server.free_memory import FreeMemory, trimmer


def recorded() -> tuple[FreeMemory, list[float]]:
    """One that takes a second each time, and when it ended."""
    trims: list[float] = []

    async def run(function, argument):
        await trio.sleep(1)
        function(argument)

    return FreeMemory(run, lambda _keep: trims.append(trio.current_time()) or 1, each=30), trims


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


async def test_nothing_where_the_system_has_nothing(autojump_clock):
    await FreeMemory(trim=None, each=0).after_session()


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
