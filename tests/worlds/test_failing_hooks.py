"""`@saving` and `@restored` that raise, in each kind of model: the session goes on as if there had been no rewind."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from reactor_trio.errors import CommandError
from reactor_trio.interface import (
    Moment,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    Saves,
    VideoModel,
    get_ctx,
    restored,
    saving,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture


class Numbers:
    """The number on each picture is its world; the hooks raise when they are told to."""

    saves = Saves("number")
    number = 0
    packed = -1
    fails = fails_in_put = False
    refuses: BaseException | None = None

    @saving
    def pack(self) -> dict[str, Any]:
        in_put, self.packed = self.packed == self.number, self.number  # the step's own moment is kept already
        if self.fails or (self.fails_in_put and in_put):
            raise OSError("the disk is gone")
        return {}

    @restored
    def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        refuses, self.refuses = self.refuses, None
        if refuses is not None:
            self.number = 200
            raise refuses


class Pipeline(Numbers, ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            self.number += 1
            yield picture(self.number)


class App(Numbers, ReactorApp):
    output: Picture
    fps = 10

    def generate(self, input):  # noqa: A002
        self.number += 1
        return Picture(main_video=picture(self.number))


class Loop(Numbers, ReactorModel):
    output: Picture
    fps = 10

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                self.number += 1
                await self.emit(Picture(main_video=picture(self.number)))


class Blocks(Numbers, VideoModel):
    def start_session(self):
        while not get_ctx().should_stop():
            self.number += 1
            get_ctx().emit_block(picture(self.number))


KINDS = pytest.mark.parametrize("model", [Pipeline, App, Loop, Blocks])


def lines_about(caplog: Any, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@KINDS
async def test_a_saving_that_raises_is_told_once_with_its_line_and_the_session_goes_on(
    autojump_clock, caplog, monkeypatch, model
):
    monkeypatch.setattr(Numbers, "fails", True)
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        with caplog.at_level(logging.WARNING):
            assert shown(await client.take(10)) == list(range(1, 11))
            for _ in range(2):
                with pytest.raises(CommandError, match="@saving raised OSError: the disk is gone") as raised:
                    await client.worlds.rewind(steps=2)
                assert raised.value.code == "cannot_save"
            assert shown(await client.take(10)) == list(range(11, 21))
    (line,) = lines_about(caplog, "@saving")
    assert f"@saving raised OSError: the disk is gone (at {__file__}:" in line


@KINDS
async def test_a_saving_that_raises_in_a_put_refuses_it_and_nothing_changes(autojump_clock, caplog, model):
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        await client.take(10)
        server.model.fails_in_put = True
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                with pytest.raises(CommandError, match="@saving raised OSError") as raised:
                    await client.worlds.rewind(step=2)
                assert raised.value.code == "cannot_save"
        assert len(lines_about(caplog, f"@saving raised OSError: the disk is gone (at {__file__}:")) == 1
        first, *more = shown(await client.take(5))
        assert first > 10
        assert more == list(range(first + 1, first + 5))
        server.model.fails_in_put = False
        assert (await client.worlds.rewind(step=2)).step == 2
        assert shown([await client.take_after()]) == [4]


@KINDS
@pytest.mark.parametrize("refuses", [OSError("no cache"), CommandError("mine", "not now")])
async def test_a_restored_that_raises_leaves_the_world_as_it_was(autojump_clock, caplog, model, refuses):
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        await client.take(10)
        server.model.refuses = refuses
        with caplog.at_level(logging.ERROR), pytest.raises(CommandError, match="@restored raised") as raised:
            await client.worlds.rewind(step=2)
        assert raised.value.code == "restore_failed"
        assert len(lines_about(caplog, "@restored")) == 1
        await trio.sleep(2)
        first, *more = shown(await client.take(5))
        assert 10 < first < 60
        assert more == list(range(first + 1, first + 5))
