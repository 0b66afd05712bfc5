"""The traceback of an exception of author code begins at the author's line; it ends with place and section of the errors.

On each way: a step, a handler, a hook, `load` and `run` of each kind of model, here, on a thread, in a process and in ranks.
"""

from __future__ import annotations

import re
import traceback
import warnings
from typing import Any

import pytest
import trio

from reactor_trio.errors import ModelFailed
from reactor_trio.interface import (
    DistributedPipeline,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    connected,
    event,
    get_ctx,
    session_started,
)
from reactor_trio.testing import open_server
from tests.behaviour.test_mistaken_output import line_of
from tests.support.behaviour_models import picture
from tests.support.models import Picture

COST = 0.25
FAILED = "docs/reference/errors.md#model-failed"


def helper() -> None:
    deeper()


def deeper() -> None:
    raise LookupError("of the author")  # here


class Steps(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(1)
        helper()


class AsyncSteps(ReactorPipeline):
    output: Picture

    async def inference(self):
        yield picture(1)
        await trio.sleep(COST)
        helper()


class Nursery(ReactorPipeline):
    """The exception comes in a group of a nursery."""

    output: Picture

    async def inference(self):
        yield picture(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.task)

    async def task(self):
        helper()


class Batch(ReactorPipeline):
    output: Picture

    def batch_inference(self, sessions):
        helper()


class AsyncBatch(ReactorPipeline):
    output: Picture

    async def batch_inference(self, sessions):
        await trio.lowlevel.checkpoint()
        helper()


class App(ReactorApp):
    output: Picture

    def generate(self, input: Any) -> Any:  # noqa: A002 - Reactor's name
        helper()


class Blocking(VideoModel):
    def start_session(self):
        get_ctx().emit_block(picture(1))
        helper()


class Ranked(DistributedPipeline):
    output: Picture
    ranks = 2

    def inference(self):
        yield picture(1)
        helper()


class Greets(ReactorPipeline):
    output: Picture

    @connected
    def come(self):
        helper()

    def inference(self):
        while True:
            yield picture(1)


class GreetsAsync(Greets):
    @connected
    async def come(self):
        await trio.sleep(COST)
        helper()


class Starts(Greets):
    @connected
    def come(self):
        pass

    @session_started
    def start(self):
        helper()


class Handles(ReactorPipeline):
    output: Picture

    @event
    def jump(self):
        helper()

    def inference(self):
        while True:
            yield picture(1)


class HandlesAsync(Handles):
    @event
    async def jump(self):
        await trio.sleep(COST)
        helper()


class LoopHandles(ReactorModel):
    output: Picture

    @event
    def jump(self):
        helper()

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(picture(1))


class BlockingHandles(VideoModel):
    @event
    def jump(self):
        helper()

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(1))


class Runs(ReactorModel):
    output: Picture

    async def run(self):
        await self.connected.wait()
        helper()


class Loads(ReactorPipeline):
    output: Picture

    def load(self, config):
        helper()

    def inference(self):
        yield picture(1)


PROCESS = {"isolation": "process"}
GENERATED = (Steps, AsyncSteps, Nursery, Greets, GreetsAsync, Starts, Handles, HandlesAsync)
CASES: list[tuple[Any, dict[str, Any]]] = [
    *((kind, how) for kind in GENERATED for how in ({}, {"thread": True}, PROCESS)),
    *((kind, how) for kind in (App, Blocking, LoopHandles, BlockingHandles) for how in ({}, PROCESS)),
    *((kind, how) for kind in (Batch, AsyncBatch) for how in ({}, {"max_sessions": 2})),
    (Ranked, {}),
]  # fmt: skip


def checked(shown: str, *, first: str = "", note: str = FAILED) -> None:
    """That the first frame shown is the author's, that none is of the runtime, and that the end names place and section."""
    files = re.findall(r'File "(.*?)", line \d+, in (.*)', shown)
    assert files, shown
    assert files[0][0] == __file__, shown
    assert not [file for file, _ in files if "/reactor_trio/" in file], shown
    assert not first or files[0][1] == first, shown
    assert [line.strip(" |") for line in shown.splitlines() if "(at " in line] == [
        f"(at {line_of(deeper, 'here')}) ({note})"
    ], shown


@pytest.mark.parametrize(
    ("kind", "how"), CASES, ids=[f"{kind.__name__}-{'-'.join(how) or 'inline'}" for kind, how in CASES]
)
async def test_a_traceback_begins_at_the_author(
    kind: Any, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(kind, step_cost=COST, **how) as server, server.connect() as client:
        with pytest.raises(Exception, match=r"of the author|Trio nursery|handler of \w+ raised"):
            await (client.command("jump") if hasattr(kind, "jump") else client.take(9))
    shown = [record for record in caplog.records if record.exc_info]
    assert len(shown) == 1, caplog.text
    _, _, text = caplog.text.partition(shown[0].getMessage())
    checked(text.partition("\nERROR")[0].partition("\nINFO")[0].partition("\nWARNING")[0])


@pytest.mark.parametrize("how", [{}, PROCESS], ids=["inline", "process"])
@pytest.mark.parametrize("kind", [Loads, Runs])
async def test_the_model_that_fails_names_the_line(kind: Any, how: dict[str, Any], autojump_clock: object) -> None:
    with pytest.raises(ModelFailed) as raised:
        async with open_server(kind, step_cost=COST, **how) as server, server.connect():
            await trio.sleep(COST)
    files = re.findall(r'File "(.*?)"', "".join(traceback.format_exception(raised.value.__cause__)))
    assert set(files) == {__file__}
    assert str(raised.value.__cause__) == "of the author"
    if kind is Loads:
        assert raised.value.__notes__ == [f"(at {line_of(deeper, 'here')}) ({FAILED})"]


class Gathers(ReactorPipeline):
    output: Picture

    async def one(self):
        return 1

    async def inference(self):
        import asyncio

        yield picture(1)
        await asyncio.gather(self.one(), self.one())  # here


class Stateless(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(self.state.speed)  # here


class Sends(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(1)
        self.send(picture(1))  # here


@pytest.mark.parametrize("how", [{}, {"thread": True}, PROCESS], ids=["inline", "thread", "process"])
@pytest.mark.parametrize(("kind", "anchor"), [(Gathers, "asyncio"), (Stateless, "state"), (Sends, "not-awaited")])
async def test_an_error_of_the_runtime_has_the_authors_line_alone(
    kind: Any, anchor: str, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(Exception, match=r"does not work here|has no state|must be awaited"):
            async with open_server(kind, step_cost=COST, **how) as server, server.connect() as client:
                await client.take(9)
    place = line_of(kind.inference, "here")
    file, _, line = place.rpartition(":")
    _, _, text = caplog.text.partition("Traceback (most recent call last):\n")
    assert re.findall(r'File "(.*?)", line (\d+), in (.*)', text) == [(file, line, "inference")]
    assert f"\n(at {place}) (docs/reference/errors.md#{anchor})\n" in text
    assert [str(each.message) for each in warned if "never awaited" in str(each.message)] == []
