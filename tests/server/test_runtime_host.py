"""A server that any thread starts and stops."""

from __future__ import annotations

import gc
import socket
import threading
import urllib.request
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
import trio

from reactor_trio import (
    ManifestError,
    ModelFailed,
    Output,
    ReactorError,
    ReactorModel,
    ReactorPipeline,
    RuntimeHost,
    SessionEnded,
    Video,
)
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.server import runtime_host


class Picture(Output):
    picture: Video


class Still(ReactorPipeline):
    output: Picture

    def inference(self) -> Any:
        while True:
            yield np.full((4, 6, 3), 7, np.uint8)


def test_a_session_is_revoked_from_a_plain_thread() -> None:
    async def watch(url: str, host: RuntimeHost) -> None:
        async with connect(url) as client:
            host.revoke("another")
            host.revoke(client.session_id)
            async for _ in client.frames():
                pass

    with RuntimeHost(Still) as host, pytest.raises(SessionEnded) as ended:
        trio.run(watch, host.url, host)
    assert ended.value.reason == "revoked"


class Broken(ReactorModel):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        raise ValueError("no weights")


def test_started_watched_and_stopped_from_a_plain_thread() -> None:
    async def first_frame(url: str) -> int:
        async with connect(url) as client:
            async for frame in client.frames():
                return int(frame.data[0, 0, 0])
        raise AssertionError

    phases: list[str] = []
    with RuntimeHost(Still, name="still", on_phase=phases.append) as host:
        with urllib.request.urlopen(f"{host.url}health") as answer:
            assert answer.status == 200
        assert abs(trio.run(first_frame, host.url) - 7) < 2  # JPEG
        called = threading.Event()
        host.post(called.set)
        assert called.wait(120)
        assert [entry.phase for entry in host.watch()] == ["loading", "ready"]
        assert [entry.phase for entry in host.watch(after=1)] == ["ready"]
    host.stop()
    assert phases == ["loading", "ready", "draining", "drained", "stopped"]
    assert [entry.phase for entry in host.watch()] == phases
    assert not [t for t in threading.enumerate() if t.name in ("reactor-io", "reactor-model")]


def test_without_a_port_it_is_that_of_the_settings_unless_that_is_the_default() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        # The port is taken, so that no other program can come between: who asks for it is told so.
        with pytest.raises(OSError, match="Address already in use"):
            RuntimeHost(Still, settings=Settings(port=port)).start()
        with RuntimeHost(Still, port=0, settings=Settings(port=port)) as host:
            assert host.serving.port != port
    with RuntimeHost(Still, settings=Settings(fps=20)) as host:
        assert host.serving.port not in (0, 8080)
    with pytest.raises(ManifestError, match=r"^Settings\.port: Expected int, got str '8080'"):
        RuntimeHost(Still, port="8080").start()


def test_a_model_that_cannot_load_is_the_caller_s_error() -> None:
    host = RuntimeHost(Broken)
    with pytest.raises(ModelFailed, match="load\\(\\) raised ValueError: no weights") as failed:
        host.start()
    assert isinstance(failed.value.__cause__, ValueError)
    assert failed.value.__context__ is None  # a group there makes a notebook print a dump, and no error
    with pytest.raises(ReactorError, match="not been started"):
        host.post(print)


class Endless(ReactorModel):
    output: Picture

    async def load(self, config: dict[str, Any]) -> None:
        await trio.sleep_forever()


@pytest.mark.parametrize("held", [True, False], ids=["before its thread has a loop", "while it loads"])
def test_a_server_that_is_not_ready_can_be_stopped(monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    loading, goes_on, over = threading.Event(), threading.Event(), threading.Event()
    run = trio.run

    def late(*args: Any, **options: Any) -> Any:
        assert goes_on.wait(60)
        return run(*args, **options)

    monkeypatch.setattr(runtime_host.trio, "run", late)
    phases: list[str] = []

    def on_phase(phase: str) -> None:
        phases.append(phase)
        (over if phase == "stopped" else loading).set()

    host = RuntimeHost(Endless, on_phase=on_phase)
    with pytest.raises(TimeoutError):
        host.start(timeout=0)
    if not held:
        goes_on.set()
        assert loading.wait(60)
    with pytest.raises(TimeoutError):
        host.stop(timeout=0)
    goes_on.set()
    assert over.wait(60)
    host.wait()
    assert phases[-1] == "stopped"
    assert "ready" not in phases


class Ends(ReactorModel):
    """Ends its server as soon as the test lets it."""

    output: Picture
    may_end = threading.Event()

    async def run(self) -> None:
        await trio.to_thread.run_sync(self.may_end.wait, 60)
        raise ValueError("out of paint")


def test_wait_raises_what_ended_the_server_whoever_asked_first() -> None:
    failed = threading.Event()

    def on_phase(phase: str) -> None:
        if phase == "failed":
            failed.set()

    host = RuntimeHost(Ends, on_phase=on_phase)
    host.start()
    Ends.may_end.set()
    assert failed.wait(20)
    with pytest.raises(ModelFailed, match="out of paint"):
        host.stop()
    for _ in range(2):
        with pytest.raises(ModelFailed, match="out of paint"):
            host.wait()
        host.stop()  # the end is told


class Weakly(np.ndarray):
    """An array to which there may be weak references."""


class Falls(ReactorModel):
    output: Picture
    frames: ClassVar[list[weakref.ref[Weakly]]] = []
    may_fall = threading.Event()

    async def run(self) -> None:
        await trio.to_thread.run_sync(self.may_fall.wait, 60)
        frame = np.zeros((4, 6, 3), np.uint8).view(Weakly)
        self.frames.append(weakref.ref(frame))
        raise ValueError("out of paint")


def test_a_host_keeps_no_frame_of_the_code_that_failed() -> None:
    """Its traceback has the locals of the author's functions."""
    host = RuntimeHost(Falls)
    lengths: list[int] = []
    host.start()
    Falls.may_fall.set()
    for _ in range(2):
        with pytest.raises(ModelFailed, match="out of paint") as failed:
            host.wait()
        assert repr(failed.value.__cause__) == "ValueError('out of paint')"
        lengths.append(len(failed.traceback))
        del failed
    gc.collect()
    assert [frame() is None for frame in Falls.frames] == [True]
    assert lengths[1] <= lengths[0]
    assert [entry.phase for entry in host.watch()][-1] == "failed"


def test_what_runs_beside_a_server_ends_with_it() -> None:
    """As the watchdog of a replica does."""

    async def served(*, drain: trio.Event, task_status: trio.TaskStatus[str]) -> None:
        task_status.started("it")
        await drain.wait()

    thread = runtime_host.ServerThread(served, beside=[trio.sleep_forever])
    thread.launch(60)
    assert thread.serving == "it"
    thread.stop(20)
