"""The watchdog in the process that it ends; its thread keeps a real clock, so these wait for its word."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import trio
import trio.testing

from reactor_trio.server.watchdog import Watchdog


def test_a_loop_that_gives_no_beat_ends_the_process() -> None:
    code = (
        "import time, trio\nfrom reactor_trio.server.watchdog import Watchdog\n"
        "async def main():\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        nursery.start_soon(Watchdog(0.2).run)\n"
        "        await trio.sleep(0.1)\n"
        "        time.sleep(30)\n"
        "trio.run(main)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 70
    assert "reactor: the I/O loop gave no sign of life for" in ended.stderr
    assert "in main" in ended.stderr  # where it hangs


def test_a_process_that_does_not_go_is_ended() -> None:
    code = (
        "import time, trio\nfrom reactor_trio.server.watchdog import Watchdog\n"
        "async def main():\n"
        "    watchdog = Watchdog(0.2)\n"
        "    async with trio.open_nursery() as nursery:\n"
        "        nursery.start_soon(watchdog.run)\n"
        "        await trio.sleep(0.1)\n"
        "        watchdog.expect_exit(0.2, 'a step does not end')\n"
        "        await trio.sleep(30)\n"
        "trio.run(main)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (70, "reactor: a step does not end")


def test_a_step_that_is_abandoned_shows_the_authors_lines_alone() -> None:
    code = (
        "import threading, time\nfrom reactor_trio.server.watchdog import abandon_step\n"
        "def step():\n    time.sleep(30)\n"
        "threading.Thread(target=step, name='reactor-model', daemon=True).start()\n"
        "time.sleep(0)\nabandon_step('a step does not end')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    first, *lines = ended.stderr.splitlines()
    assert (ended.returncode, first) == (70, "reactor: a step does not end. It is here:")
    assert lines[-1].startswith('  File "<string>", line 4, in step')
    assert "Thread 0x" not in ended.stderr


def test_a_loop_that_beats_is_left_alone_and_one_that_stops_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread's own code, on a clock that a look at the stop event moves on by its wait."""
    reasons: list[str] = []
    watchdog = Watchdog(1.0, reasons.append, abandon=reasons.append)
    now, beats = 100.0, True

    class Stop:
        def wait(self, seconds: float) -> bool:
            nonlocal now
            now += seconds
            if beats:
                watchdog._beat = now - 0.9
            return now > 200

    monkeypatch.setattr("reactor_trio.server.watchdog.time.monotonic", lambda: now)
    monkeypatch.setattr(watchdog, "_stop", Stop())
    watchdog._watch()
    assert (now > 200, reasons) == (True, [])
    now, beats, watchdog._beat = 100.0, False, 100.0
    watchdog._watch()
    assert reasons == ["the I/O loop gave no sign of life for 1.5 s"]
    now = 100.0
    watchdog.expect_exit(5.0, "a step does not end")
    watchdog._watch()
    assert (now, reasons[1:]) == (105.25, ["a step does not end"])  # at the first look after its time, and not before


async def test_the_thread_goes_with_its_task() -> None:
    before = set(threading.enumerate())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Watchdog(600).run)
        await trio.testing.wait_all_tasks_blocked()
        (thread,) = set(threading.enumerate()) - before
        nursery.cancel_scope.cancel()
    thread.join(120)
    assert not thread.is_alive()
