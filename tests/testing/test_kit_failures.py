"""What author code raises and no client is told: the block raises it, in every placement, unless the test has heard it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings as RuntimeSettings
from reactor_trio.errors import ReactorError, SessionEnded
from reactor_trio.interface import (
    ClientInfo,
    InputField,
    InputState,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    VideoModel,
    connected,
    disconnected,
    event,
    file_uploaded,
    get_ctx,
)
from reactor_trio.testing import PipelineExecutor, open_server, open_session

in_each_placement = pytest.mark.parametrize(
    "placement",
    [{}, {"thread": True}, {"websocket": True}, {"isolation": "process"}],
    ids=["inline", "thread", "websocket", "isolated"],
)


class Settings(InputState):
    value: int = InputField(default=1)


def picture():
    return np.zeros((2, 2, 3), np.uint8)


class Plain(ReactorPipeline):
    state: Settings
    output: Picture

    def inference(self):
        while True:
            yield picture()


class IgnoresClose(Plain):
    state: Settings

    def inference(self):
        try:
            while True:
                yield picture()
        finally:
            yield picture()


class IgnoresCloseAsync(Plain):
    state: Settings

    async def inference(self):
        try:
            while True:
                yield picture()
        finally:
            yield picture()


class FinallyRaises(Plain):
    state: Settings

    def inference(self):
        try:
            while True:
                yield picture()
        finally:
            raise ValueError("disk full")


class FinallyRaisesAsync(Plain):
    state: Settings

    async def inference(self):
        try:
            while True:
                yield picture()
        finally:
            raise ValueError("disk full")


class FinallyRaisesInAStep(Plain):
    state: Settings

    async def inference(self):
        yield picture()
        try:
            await trio.sleep(3600)
        finally:
            raise ValueError("disk full")


class DisconnectedRaises(Plain):
    state: Settings

    @disconnected
    def gone(self):
        raise ValueError("disk full")


class DisconnectedRaisesAsync(Plain):
    state: Settings

    @disconnected
    async def gone(self):
        await trio.sleep(1)
        raise ValueError("disk full")


class RunLoopDisconnectedRaises(ReactorModel):
    output: Picture

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(picture(), compute_time=0.25)

    @disconnected
    def gone(self):
        raise ValueError("disk full")


FAILING = {
    "IgnoresClose": (IgnoresClose, "generator ignored GeneratorExit"),
    "IgnoresCloseAsync": (IgnoresCloseAsync, "async generator ignored GeneratorExit"),
    "FinallyRaises": (FinallyRaises, "disk full"),
    "FinallyRaisesAsync": (FinallyRaisesAsync, "disk full"),
    "FinallyRaisesInAStep": (FinallyRaisesInAStep, "disk full"),
    "DisconnectedRaises": (DisconnectedRaises, "disk full"),
    "DisconnectedRaisesAsync": (DisconnectedRaisesAsync, "disk full"),
    "RunLoopDisconnectedRaises": (RunLoopDisconnectedRaises, "disk full"),
}
each_failing = pytest.mark.parametrize(("model", "text"), FAILING.values(), ids=FAILING)


def raised(text):
    """As the author's exception in one process, by name where another one raised it."""
    return pytest.raises((ValueError, RuntimeError, ReactorError), match=text)


@in_each_placement
@each_failing
async def test_open_session_raises_it(model, text, placement, autojump_clock):
    with raised(text) as caught:
        async with open_session(model, step_cost=0.25, **placement) as client:
            await client.take(1)
            await trio.sleep(1)
    assert type(caught.value).__name__ in ("ValueError", "RuntimeError")
    assert not isinstance(caught.value, BaseExceptionGroup)


@pytest.mark.parametrize("placement", [{}, {"websocket": True}, {"isolation": "process"}])
async def test_the_block_of_a_client_raises_errors_that_are_known_at_its_end(placement, autojump_clock):
    async with open_server(FinallyRaises, **placement) as server:
        for _ in range(2):
            with raised("disk full"):
                async with server.connect() as client:
                    await client.take(1)


async def test_with_a_thread_that_of_the_server_raises_it(autojump_clock):
    """The block of a client does not wait for what a thread computes, which may wait for what the test does next."""
    entered, release = threading.Event(), threading.Event()

    class Blocks(Plain):
        state: Settings

        def inference(self):
            yield picture()
            entered.set()
            assert release.wait(60)
            raise ValueError("disk full")

    with raised("disk full"):
        async with open_server(Blocks, thread=True) as server:
            async with server.connect() as client:
                await client.take(1)
                assert await trio.to_thread.run_sync(entered.wait, 60)
            release.set()


@in_each_placement
@each_failing
async def test_close_raises_it_so_it_can_be_expected(model, text, placement, autojump_clock):
    async with open_server(model, step_cost=0.25, **placement) as server:
        for end in ("close", "vanish"):
            async with server.connect() as client:
                await client.take(1)
                await trio.sleep(1)
                if end == "vanish":
                    await client.vanish()
                with raised(text):
                    await client.close()


@in_each_placement
async def test_a_failure_after_the_block_of_its_client_is_raised_by_the_servers(placement, autojump_clock):
    class Late(Plain):
        state: Settings

        @disconnected
        async def gone(self, client: ClientInfo):
            await trio.sleep(1)
            if client.id == 1:
                raise ValueError("disk full")

    with raised("disk full"):
        async with open_server(Late, step_cost=0.25, **placement) as server:
            for _ in range(2):
                async with server.connect() as client:
                    await client.take(1)


async def test_several_failures_are_a_group(autojump_clock):
    class Both(FinallyRaises):
        state: Settings

        @disconnected
        def gone(self):
            raise KeyError("no such client")

    with pytest.RaisesGroup(pytest.RaisesExc(KeyError), pytest.RaisesExc(ValueError, match="disk full")):
        async with open_session(Both) as client:
            await client.take(1)


async def test_an_exception_of_the_block_comes_out_as_it_is(autojump_clock):
    with pytest.raises(AssertionError, match="mine"):
        async with open_session(FinallyRaises) as client:
            await client.take(1)
            raise AssertionError("mine")


@in_each_placement
async def test_an_error_that_take_has_raised_is_not_raised_again(placement, autojump_clock):
    class Broken(Plain):
        state: Settings

        def inference(self):
            yield picture()
            raise ValueError("no weights")

    async with open_session(Broken, step_cost=0.25, **placement) as client:
        with raised("no weights"):
            await client.take(2)


@in_each_placement
@pytest.mark.parametrize("heard", ["command", "frames", "ended"])
async def test_an_error_that_the_client_got_in_another_way_is_not_raised_again(heard, placement, autojump_clock):
    class Broken(Plain):
        state: Settings

        def inference(self):
            yield picture()
            raise ValueError("no weights")

    async with open_session(Broken, step_cost=0.25, **placement) as client:
        await trio.sleep(5)
        if heard == "ended":
            assert client.ended == "model_error"
        elif heard == "command":
            with pytest.raises(SessionEnded, match="model_error"):
                await client.command("set_value", value=2)
        else:
            with pytest.raises(SessionEnded, match="model_error"):
                async for _ in client.frames():
                    pass


@in_each_placement
async def test_the_failure_of_a_session_without_a_waiting_take_is_raised(placement, autojump_clock):
    class Broken(Plain):
        state: Settings

        def inference(self):
            yield picture()
            yield picture()
            raise ValueError("no weights")

    with raised("no weights"):
        async with open_session(Broken, step_cost=0.25, **placement) as client:
            await client.take(1)
            await trio.sleep(5)


@in_each_placement
async def test_an_end_that_takes_too_long_is_raised(placement, autojump_clock):
    class Slow(Plain):
        state: Settings

        async def inference(self):
            try:
                while True:
                    yield picture()
            finally:
                await trio.sleep(60)

    class SlowHook(Plain):
        state: Settings

        @disconnected
        async def gone(self):
            await trio.sleep(60)

    for model, text in ((Slow, r"closing inference\(\) took over 5 s"), (SlowHook, "@disconnected took over 5 s")):
        with pytest.raises((trio.TooSlowError, ReactorError), match=text) as caught:
            async with open_session(model, step_cost=0.25, **placement) as client:
                await client.take(1)
                await client.close()
        assert type(caught.value).__name__ == "TooSlowError"


async def test_a_blocking_model_that_fails_after_its_client_has_left(autojump_clock, caplog):
    class Blocking(VideoModel):
        def start_session(self):
            while not get_ctx().should_stop():
                get_ctx().emit_block(picture())
            raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        async with open_session(Blocking, step_cost=0.25) as client:
            await client.take(1)
    assert f"session {client.session_id}: the model raised after its end" in caplog.messages


@in_each_placement
async def test_an_error_of_a_cancelled_step_is_logged(placement, autojump_clock, caplog):
    async with open_server(FinallyRaisesInAStep, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep(1)
            with raised("disk full"):
                await client.close()
        assert f"session {client.session_id}: the model raised after its end" in caplog.messages
        assert [session.reason for session in server.sessions] == ["client_left"]


async def test_a_file_hook_that_raises(autojump_clock):
    class Files(Plain):
        state: Settings

        @event
        def use(self, file: UploadedFile):
            pass

        @file_uploaded
        def arrived(self, file):
            raise ValueError("no picture")

    with pytest.raises(ValueError, match="no picture"):
        async with open_session(Files, step_cost=0.25) as client:
            await client.upload(b"abcd")
            await client.take(1)


async def test_a_polite_end_is_no_failure(autojump_clock):
    class Clean(Plain):
        state: Settings

        async def inference(self):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                while True:
                    yield picture()
                    self.check_cancelled()

        @connected
        def come(self):
            self.state.value = 2

    async with open_server(Clean, step_cost=0.25) as server:
        for end in ("close", "vanish", "leave"):
            async with server.connect() as client:
                await client.take(2)
                if end != "leave":
                    await getattr(client, end)()
        await server.drain()


@pytest.mark.parametrize(("model", "text"), [*list(FAILING.values())[:4], FAILING["DisconnectedRaises"]])
def test_the_executor_raises_it(model, text):
    with raised(text), PipelineExecutor(model) as executor:
        executor.connect()
        next(executor)


@pytest.mark.parametrize("opened", [open_server, open_session])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step_cots": 0.5}, "open_server: unknown option step_cots; did you mean step_cost?"),
        ({"queu": 0}, "open_server: unknown option queu; did you mean queue?"),
        ({"queue": "none"}, "Settings.queue: Expected int, got str 'none'; write a whole number, as in 30"),
    ],
)
async def test_an_option_that_the_kit_does_not_have_is_named(autojump_clock, opened, options, words):
    with pytest.raises(ReactorError) as refused:
        async with opened(ReactorPipeline, **options):
            pass
    assert str(refused.value) == words


class NoModel:
    """A class that forgot its base."""


MANIFEST = Manifest(Path("/project"), "sky:Sky", "sky", {}, RuntimeSettings())


@pytest.mark.parametrize("opened", [open_server, open_session, PipelineExecutor])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Plain(), "expected a model class, got an instance of Plain: give the class itself, Plain"),
        ("sky:Sky", "expected a model class, got 'sky:Sky': give the class itself: `from sky import Sky`"),
        ("sky.py", "expected a model class, got 'sky.py': give the class itself"),
        (MANIFEST, "expected a model class, got Manifest: give its class, manifest.model, and config=manifest.config with "
         "it"),
        (NoModel, "NoModel is not a model: subclass ReactorPipeline, ReactorModel or VideoModel"),
        (picture, "picture is not a model: subclass ReactorPipeline, ReactorModel or VideoModel"),
        (None, "expected a model class, got NoneType: give the class itself"),
    ],
)  # fmt: skip
async def test_what_is_no_model_class_is_told_what_to_give(autojump_clock, opened, given, words):
    with pytest.raises(ReactorError) as refused:
        if opened is PipelineExecutor:
            PipelineExecutor(given)
        else:
            async with opened(given):
                pass
    assert str(refused.value) == words
