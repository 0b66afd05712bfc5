"""How long `take` waits, what it says when nothing comes, and the first frame that a command made."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.errors import SessionEnded
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    connected,
    event,
    get_ctx,
)
from reactor_trio.testing import open_server, open_session

in_each_placement = pytest.mark.parametrize(
    "placement",
    [{}, {"thread": True}, {"websocket": True}, {"isolation": "process"}],
    ids=["inline", "thread", "websocket", "isolated"],
)


class Settings(InputState):
    value: int = InputField(default=0)


class Depth(Output):
    depth: Video


def picture(value=0):
    return np.full((2, 2, 3), value, np.uint8)


class Plain(ReactorPipeline):
    state: Settings
    output: Picture

    def inference(self):
        while True:
            yield picture(self.state.value)


class Waits(Plain):
    """Shows what it is told to show, once."""

    state: Settings

    def inference(self):
        shown = 0
        while True:
            if self.state.value == shown:
                yield Idle  # the line that is named
            else:
                shown = self.state.value
                yield picture(shown)


# ---- how long ----------------------------------------------------------------------------------------------------------


@in_each_placement
async def test_take_waits_for_a_minute_without_a_frame(placement, autojump_clock):
    async with open_session(Waits, step_cost=0.25, **placement) as client:
        await client.command("set_value", value=1)
        await client.take(1)
        began = trio.current_time()
        with pytest.raises(trio.TooSlowError, match="no frame of main_video for 60 s"):
            await client.take(1)
        assert trio.current_time() - began == 60


async def test_each_frame_gives_it_another_minute(autojump_clock):
    class Slow(Plain):
        state: Settings
        fps = 1 / 50

    async with open_session(Slow, step_cost=50) as client:
        frames = await client.take(6)
        assert [frame.pts for frame in frames] == [50, 100, 150, 200, 250, 300]
        with pytest.raises(trio.TooSlowError, match="for 40 s"):
            await client.take(2, within=40)


async def test_a_longer_wait_is_asked_for(autojump_clock):
    async with open_session(Plain, step_cost=[300.0]) as client:
        assert (await client.take(1, within=301))[0].pts == 300


async def test_next_message_waits_as_long(autojump_clock):
    async with open_session(Plain, step_cost=0.25) as client:
        with pytest.raises(trio.TooSlowError, match="no message for 60 s"):
            await client.next_message()
        with pytest.raises(trio.TooSlowError, match="no message for 5 s"):
            await client.next_message(within=5)


# ---- what the model did meanwhile ---------------------------------------------------------------------------------------


@in_each_placement
async def test_a_model_that_idles_is_said_to(placement, autojump_clock):
    async with open_session(Waits, step_cost=0.25, **placement) as client:
        await client.command("set_value", value=1)
        with pytest.raises(trio.TooSlowError) as caught:
            await client.take(3, within=1)
    assert re.fullmatch(
        "no frame of main_video for 1 s, after 1 of 3. Meanwhile the model made no frame and gave none (49|50|51) times "
        r"\(Idle, None or a return\); inference\(\) " + is_at("yield Idle  # the line that is named"),
        str(caught.value),
    )


@in_each_placement
async def test_a_step_that_waits_is_said_to(placement, autojump_clock):
    class Hangs(Plain):
        state: Settings

        async def inference(self):
            yield picture()
            await trio.sleep_forever()  # here it hangs

    async with open_session(Hangs, step_cost=0.25, **placement) as client:
        with pytest.raises(trio.TooSlowError) as caught:
            await client.take(2)
    place = is_at("await trio.sleep_forever()  # here it hangs")
    assert re.search(rf"Meanwhile the model made no frame; inference\(\) {place}$", str(caught.value))


@in_each_placement
async def test_a_run_loop_that_waits_is_said_to(placement, autojump_clock):
    class Loop(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            await self.emit(picture())
            await self.work()

        async def work(self):
            await trio.sleep_forever()  # here it waits

    async with open_session(Loop, step_cost=0.25, **placement) as client:
        with pytest.raises(trio.TooSlowError) as caught:
            await client.take(2)
    assert re.search(rf"; run\(\) {is_at('await trio.sleep_forever()  # here it waits')}$", str(caught.value))


async def test_a_blocking_model_that_waits_is_said_to(autojump_clock):
    class Blocking(VideoModel):
        def start_session(self):
            get_ctx().emit_block(picture())
            while not get_ctx().should_stop():
                time.sleep(0.5)  # here it sleeps

    async with open_session(Blocking, step_cost=0.25) as client:
        await client.take(1)
        with pytest.raises(trio.TooSlowError) as caught:
            await client.take(1, within=3)
    assert re.search(rf"start_session\(\) {is_at('time.sleep(0.5)  # here it sleeps')}$", str(caught.value))


async def test_a_hook_that_does_not_return_is_said_to(autojump_clock):
    class Hooked(Plain):
        state: Settings

        @connected
        async def come(self):
            await trio.sleep(100)

    async with open_session(Hooked) as client:
        with pytest.raises(trio.TooSlowError, match=r"inference\(\) has not begun: @connected has not returned"):
            await client.take(1)


async def test_frames_of_another_track_are_said_to(autojump_clock):
    class Both(ReactorPipeline):  # without `output`: it has the tracks of all Outputs here
        def inference(self):
            while True:
                yield Picture(main_video=picture())

    async with open_session(Both, step_cost=0.25) as client:
        with pytest.raises(trio.TooSlowError, match=r"no frame of depth for 60 s.*in 2\d\d steps; .* 2\d\d of main_video"):
            await client.take(1, "depth")


async def test_a_client_that_does_not_read_is_said_to(autojump_clock):
    async with open_session(Plain, step_cost=0.25) as client:
        await client.take(1)
        client.stall()
        with pytest.raises(trio.TooSlowError, match=r"this client reads nothing since stall\(\)"):
            await client.take(5, within=3)


async def test_dropped_frames_are_said_to(autojump_clock):
    class Flushes(ReactorModel):
        output: Picture
        fps = 1

        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(picture(), drop=True)
                self.output_buffer.clear()
                await trio.sleep(0.5)

    async with open_session(Flushes) as client:
        with pytest.raises(trio.TooSlowError, match=r"dropped: \d+ \(buffer, "):
            await client.take(1, within=10)


# ---- the first frame that a command made --------------------------------------------------------------------------------


@in_each_placement
async def test_take_after_gives_the_first_frame_that_a_command_made(placement, autojump_clock):
    async with open_session(Plain, step_cost=0.25, **placement) as client:
        for value in (10, 20, 30):
            await client.command("set_value", value=value)
            frame = await client.take_after()
            assert frame.data[0, 0, 0] == value
            assert frame.command_id == client.last_command
            assert (await client.take(1))[0].seq == frame.seq + 1


async def test_take_after_gives_the_frame_of_a_command_before_the_newest(autojump_clock):
    async with open_session(Plain, step_cost=0.25) as client:
        await client.command("set_value", value=10)
        first = client.last_command
        await trio.sleep(2)
        await client.command("set_value", value=20)
        before = await client.take_after(first)
        assert (before.data[0, 0, 0], before.command_id) == (10, first)
        after = await client.take_after()
        assert (after.data[0, 0, 0], after.command_id) == (20, client.last_command)


async def test_take_after_of_a_viewer(autojump_clock):
    async with open_server(Plain, step_cost=0.25) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.command("set_value", value=10)
            assert (await viewer.take_after(client.last_command)).data[0, 0, 0] == 10
            with pytest.raises(ValueError, match="no command of this client"):
                await viewer.take_after()


async def test_take_after_of_a_run_loop(autojump_clock):
    class Loop(ReactorModel):
        output: Picture
        value = 0

        @event
        def show(self, value: int):
            self.value = value

        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(picture(self.value), compute_time=0.25)

    async with open_session(Loop, step_cost=0.25) as client:
        await client.command("show", value=10)
        assert (await client.take_after()).data[0, 0, 0] == 10


async def test_take_after_says_what_the_model_did_instead(autojump_clock):
    async with open_session(Plain, step_cost=0.25) as client:
        with pytest.raises(ValueError, match="no command of this client has been applied yet"):
            await client.take_after()
        said = r"no frame of main_video with command 9 for 60 s.*frames in 2\d\d steps"
        with pytest.raises(trio.TooSlowError, match=said):
            await client.take_after(9)
        with pytest.raises(trio.TooSlowError, match="for 5 s"):
            await client.take_after(9, within=5)


async def test_take_after_raises_the_error_that_ended_the_session(autojump_clock):
    class Breaks(Plain):
        state: Settings

        def inference(self):
            while not self.state.value:
                yield picture()
            raise ValueError("no weights")

    async with open_session(Breaks, step_cost=0.25) as client:
        await client.command("set_value", value=1)
        with pytest.raises(ValueError, match="no weights"):
            await client.take_after()


async def test_a_command_that_was_refused_is_not_the_last(autojump_clock):
    class Asks(Plain):
        state: Settings

        @event
        def ask(self):
            raise LookupError("nothing")

    async with open_session(Asks, step_cost=0.25) as client:
        assert client.last_command is None
        await client.command("set_value", value=1)
        assert client.last_command == 1
        with pytest.raises(Exception, match=r"handler of \w+ raised"):
            await client.command("ask")
        assert client.last_command == 1


async def test_frames_of_the_real_client_have_it_too(autojump_clock):
    async with open_session(Plain, step_cost=0.25) as client:
        frames = client.frames()
        await anext(frames)
        await client.command("set_value", value=10)
        frame = await frames.after(client.last_command)
        assert (frame.data[0, 0, 0], frame.command_id) == (10, client.last_command)
        assert (await anext(frames)).seq == frame.seq + 1
        await client.server.drain()
        with pytest.raises(SessionEnded, match="draining"):
            await frames.after(99)


def is_at(code):
    """What is said of the line in this file that is `code`, as a regular expression."""
    with open(__file__) as file:
        (number,) = (number for number, line in enumerate(file, 1) if line.strip() == code)
    return re.escape(f"is at {__file__}:{number}: {code}")
