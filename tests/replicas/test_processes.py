"""The node helper kills a stopped process and leaves others alone; a replica takes a port of its range."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from reactor_trio.replicas.node_address import parse_name
from reactor_trio.replicas.node_helper import _end_if_stopped
from reactor_trio.replicas.options import Options
from reactor_trio.replicas.replica import _listen

#: A name with brackets and a T in it must not pass for a state.
WAITS = "open('/proc/self/comm', 'w').write('x) T ('); print(flush=True); import signal; signal.pause()"
#: Nothing else listens at this address.
HOST = "127.83.19.7"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_stopped_process_is_killed(child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)  # it has stopped
    assert _end_if_stopped(child.pid) == "it was stopped, and has been killed"
    assert child.wait() == -signal.SIGKILL


def test_a_process_that_runs_is_left_to_its_own_watchdog(child: subprocess.Popen[bytes]) -> None:
    assert _end_if_stopped(child.pid) == "it is not stopped; its own watchdog decides"
    os.kill(child.pid, signal.SIGTERM)  # which ends it only if nothing has before
    assert child.wait() == -signal.SIGTERM


def test_a_process_that_is_gone_is_gone(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert _end_if_stopped(child.pid) == "it is gone"


def test_a_name_is_process_and_node() -> None:
    assert parse_name("17@2b0f") == (17, "2b0f")


@contextmanager
def held(port: int) -> Iterator[int]:
    """A port that is taken; 0 means any."""
    with socket.socket() as holder:
        holder.bind((HOST, port))
        holder.listen()
        yield holder.getsockname()[1]


@contextmanager
def first_and_last_held() -> Iterator[int]:
    """The first of three ports in a row, of which only the middle one is free."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(held(0))
            try:
                with held(first + 1):
                    stack.enter_context(held(first + 2))
            except OSError:
                continue
            yield first
            return


async def test_the_first_free_port_of_the_range_is_taken() -> None:
    with first_and_last_held() as first:
        listener = _listen(Options(path=".", host=HOST, ports=f"{first}-{first + 2}"))
        async with listener:
            assert listener.socket.getsockname() == (HOST, first + 1)
            with socket.create_connection((HOST, first + 1)):
                pass


async def test_without_a_free_port_the_range_is_named() -> None:
    with held(0) as port, pytest.raises(OSError, match=f"^no port of {port}-{port} is free at {HOST}: ") as refused:
        _listen(Options(path=".", host=HOST, ports=f"{port}-{port}"))
    assert "in use" in str(refused.value)


async def test_without_a_range_any_port_is_taken() -> None:
    async with _listen(Options(path=".", host=HOST)) as one, _listen(Options(path=".", host=HOST)) as other:
        assert 0 != one.socket.getsockname()[1] != other.socket.getsockname()[1] != 0


async def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(OSError, match=r"^no port is free at 192\.0\.2\.1: "):
        _listen(Options(path=".", host="192.0.2.1"))
