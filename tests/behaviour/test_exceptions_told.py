"""Who is told of an author's exception: the log, once whole; clients, in words only where the model is developed."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
import trio

from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import DistributedPipeline, ReactorModel, ReactorPipeline, VideoModel, event, get_ctx
from reactor_trio.interface.blocking_tracks import VideoIn
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture

ASK = "the model failed; the terminal of `reactor run` shows the line, and `--debug` tells it here"
AGAIN = "times by now; the traceback is logged with the first)"


class Fails(ReactorPipeline):
    output: Picture
    fps = 10

    @event
    def fail(self, text: str):
        raise ValueError(text)

    @event
    def stop(self):
        self.stopped = True

    def inference(self):
        while not vars(self).pop("stopped", False):
            yield picture(1)
        raise RuntimeError("the secret")


def errors(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """Lines at ERROR, and whether each has a traceback."""
    return [(r.getMessage(), r.exc_info is not None) for r in caplog.records if r.levelno >= logging.ERROR]


how = pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])


@how
async def test_a_handler_that_raises_again_and_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    async with open_server(Fails, **how) as server, server.connect() as client:
        for number in range(3):
            with pytest.raises(CommandError):
                await client.command("fail", text=f"number {number}")
        raised = f"session {server.sessions[0].id}: the handler of fail raised"
    assert errors(caplog) == [
        (raised, True), (f"{raised} ValueError: number 1 (2 {AGAIN}", False),
        (f"{raised} ValueError: number 2 (3 {AGAIN}", False),
    ]  # fmt: skip


@how
async def test_a_step_that_raises_for_each_client_that_comes(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    async with open_server(Fails, **how) as server:
        for _ in range(3):
            async with server.connect() as client:
                await client.command("stop")
                with pytest.raises(Exception, match="the secret"):
                    await client.take(99)
        raised = [f"session {session.id}: the model raised" for session in server.sessions]
    assert errors(caplog) == [
        (raised[0], True), (f"{raised[1]} RuntimeError: the secret (2 {AGAIN}", False),
        (f"{raised[2]} RuntimeError: the secret (3 {AGAIN}", False),
    ]  # fmt: skip


async def test_on_frame_that_raises_for_each_picture(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    class Watches(VideoModel):
        camera = VideoIn()

        def on_frame(self, frame):
            raise ValueError("no eyes")

        def start_session(self):
            while not get_ctx().should_stop():
                time.sleep(0.1)
                get_ctx().emit_block(picture(1))

    with pytest.raises(BaseExceptionGroup, match="author code raised") as raised:
        async with open_server(Watches) as server, server.connect() as client:
            for _ in range(3):
                await client.push("camera", picture(3))
            await trio.sleep(1)
    assert [str(error) for error in raised.value.exceptions] == ["no eyes"] * 3
    assert errors(caplog) == [
        ("Watches.on_frame() raised", True), (f"Watches.on_frame() raised ValueError: no eyes (2 {AGAIN}", False),
        (f"Watches.on_frame() raised ValueError: no eyes (3 {AGAIN}", False),
    ]  # fmt: skip


@how
@pytest.mark.parametrize("debug", [False, True])
async def test_the_client_and_viewers_of_a_session_that_failed(
    autojump_clock: object, debug: bool, how: dict[str, Any]
) -> None:
    async with open_server(Fails, debug=debug, **how) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.command("stop")
            for each in client, viewer:
                with pytest.raises(SessionEnded) as ended:
                    async for _ in each.frames():
                        pass
                assert str(ended.value) == "model_error: " + ("RuntimeError: the secret" if debug else ASK)


@pytest.mark.parametrize(
    ("end", "told"), [("raise", "run() raised OSError: no device"), ("return", "run() returned; it must go on for the")]
)
@pytest.mark.parametrize("debug", [False, True])
async def test_the_clients_of_a_run_that_ended(autojump_clock: object, debug: bool, end: str, told: str) -> None:
    class Ends(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            await self.emit(picture(1))
            if end == "raise":
                raise OSError("no device")

    async with open_server(Ends, debug=debug) as server, server.connect() as client:
        with pytest.raises(SessionEnded) as ended:
            async for _ in client.frames():
                pass
        assert str(ended.value).startswith(f"model_error: {told if debug else ASK}")
        assert server.model_error(ended.value, client) is not None  # and need not be raised after the block


async def test_other_ends_have_no_such_words(autojump_clock: object) -> None:
    async with open_server(Fails, settings=None) as server, server.connect() as client:
        await client.take()
        server.runtime.revoke(client.session_id)
        with pytest.raises(SessionEnded, match=r"^the session ended: revoked$"):
            await client.take(99)


class Unsayable(ValueError):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise KeyError("no text")


class Mute(Fails):
    """Raises what cannot be written as it is."""

    @event
    def fail(self, text: str):
        raise ValueError("\udcff") if text == "surrogate" else Unsayable

    @event
    def stop(self, text: str = "surrogate"):
        self.stopped = text

    def inference(self):
        while not (text := vars(self).pop("stopped", "")):
            yield picture(1)
        self.fail(text)


class MuteRanks(Mute, DistributedPipeline):
    """The same on two ranks."""


texts = pytest.mark.parametrize(("text", "said"), [("surrogate", "?"), ("str", "(its __str__ raised KeyError)")])


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}, {"ranks": 2}], ids=["inline", "process", "ranks"])
@texts
async def test_an_exception_whose_text_cannot_be_sent_ends_only_its_session(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any], text: str, said: str
) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # pytest-xdist cannot send what this process would log
    async with open_server(MuteRanks if how.get("ranks") else Mute, debug=True, **how) as server:
        for _ in range(3):
            async with server.connect() as client:
                with pytest.raises(CommandError) as refused:
                    await client.command("fail", text=text)
                assert refused.value.message.endswith(f": {said}")
                await client.command("stop", text=text)
                with pytest.raises(Exception) as ended:
                    await client.take(99)
                assert type(ended.value).__name__ in ("ValueError", "Unsayable")
        assert [session.reason for session in server.sessions] == ["model_error"] * 3
