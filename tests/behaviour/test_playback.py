"""Pause, step and restart of a session's model, in exact virtual time."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.client import TransportChanged, observe
from reactor_trio.client.session_view import internals
from reactor_trio.errors import CommandError, DeclarationError, SessionEnded
from reactor_trio.execution.session_binding import SEEN_SESSION
from reactor_trio.interface import (
    Audio,
    Idle,
    Input,
    InputField,
    InputState,
    Output,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    Video,
    VideoModel,
    connected,
    disconnected,
    event,
    session_ended,
    session_started,
)
from reactor_trio.protocol import encode_client_text
from reactor_trio.testing import open_server
from tests.support.behaviour_models import in_all_placements, picture, raw_peer, raw_session, refusal, shown
from tests.support.models import Picture


class Settings(InputState):
    value: int = InputField(default=0, ge=0, le=9)


class Film(ReactorPipeline):
    """Shows 0, 1, 2, ... in each run, plus a hundred times the setting. Notes what happens to it."""

    output: Picture
    state: Settings
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.batch = config.get("batch")
        self.log: list[str] = []
        self.steps: list[float] = []

    @session_started
    def begin(self) -> None:
        self.log.append("session_started")

    @connected
    def join(self) -> None:
        self.log.append("connected")

    @disconnected
    def part(self) -> None:
        self.log.append(f"disconnected {self.state.value}")

    @session_ended
    def end(self) -> None:
        self.log.append("session_ended")

    @event
    def ask(self) -> int:
        return len(self.steps)

    def inference(self):
        self.log.append("inference")
        try:
            number = 0
            while True:
                self.steps.append(trio.current_time())
                shade = number + 100 * self.state.value
                yield picture(shade) if self.batch is None else np.stack([picture(shade + i) for i in range(self.batch)])
                number += self.batch or 1
        finally:
            self.log.append("closed")


class Short(Film):
    transport = ("pause",)


def times(frames):
    return [round(frame.pts, 6) for frame in frames]


# ---- what is allowed -------------------------------------------------------------------------------------------------


class App(ReactorApp):
    output: Picture
    fps = 10

    def load(self, config_path):
        self.number = -1

    def generate(self, input):  # noqa: A002
        self.number += 1
        return Picture(main_video=picture(self.number))


class Together(ReactorPipeline):
    output: Picture
    fps = 10
    max_sessions = 2

    def batch_inference(self, sessions):
        return [picture(7) for _ in sessions]


class Loop(ReactorModel):
    output: Picture

    async def run(self):
        await trio.sleep_forever()


class Endless(VideoModel):
    pass


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        (Film, ("pause", "step", "restart")), (Short, ("pause",)), (App, ("pause", "step")), (Together, ("pause", "step")),
        (Loop, ()),
    ],
)  # fmt: skip
async def test_the_welcome_says_what_the_controlling_client_may_do(model, allowed, autojump_clock):
    async with open_server(model, step_cost=0.01) as server, server.connect() as client:
        assert (client.transport.allowed, client.transport.paused) == (allowed, False)
        async with server.connect(role="viewer") as viewer:
            assert viewer.transport.allowed == ()


def test_a_video_model_allows_nothing():
    assert Endless.__reactor_declaration__.playback == ()


@pytest.mark.parametrize(
    ("base", "given", "why"),
    [
        (ReactorPipeline, ("pause", "rewind"), "'rewind' is not one of pause, step, restart"),
        (ReactorPipeline, "pause", "expected names, such as .*, not 'pause'"),
        (ReactorPipeline, ("step",), "'step' needs 'pause', since only a paused model is stepped"),
        (ReactorApp, ("restart",), "'restart' is not possible here; an app has no generator to restart"),
        (ReactorModel, ("pause",), r"'pause' is not possible here; .* a run\(\) of its own"),
    ],
)
def test_a_class_that_declares_impossible_transport_is_refused(base, given, why):
    with pytest.raises(DeclarationError, match=rf"Odd\.transport: {why}"):
        type("Odd", (base,), {"transport": given, "__module__": __name__})


async def test_a_transport_command_that_is_not_allowed_is_refused_and_changes_nothing(autojump_clock):
    async with open_server(Short, step_cost=0.01) as server, server.connect() as client:
        with pytest.raises(CommandError, match=r"^reactor.restart: this model allows pause$") as refused:
            await client.transport.restart()
        assert refused.value.code == "not_allowed"
        with pytest.raises(CommandError, match="this model allows pause"):
            await client.transport.step()
        async with server.connect(role="viewer") as viewer:
            with pytest.raises(CommandError, match="a viewer watches"):
                await viewer.transport.pause()
        assert shown(await client.take(3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"type": "reactor.pause"}, "Object missing required field paused"),
        ({"type": "reactor.pause", "data": {"paused": 1}}, "Expected bool, got int - at $.paused"),
        ({"type": "reactor.step", "data": {"steps": 0}}, "Expected int >= 1 - at $.steps"),
        ({"type": "reactor.step", "data": {"steps": 1001}}, "Expected int <= 1000 - at $.steps"),
        ({"type": "reactor.restart", "data": {"state": "old"}}, "Invalid enum value 'old' - at $.state"),
    ],
)
async def test_a_message_that_is_not_well_formed_is_refused_with_its_path(message, why, autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, raw_session(server) as peer:
        await peer.say(message | {"id": 3})
        assert await peer.answer() == refusal(3, "invalid_command", why)


async def test_a_session_that_is_not_paused_is_not_stepped(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        with pytest.raises(CommandError, match=r"the session is not paused; send reactor\.pause first") as refused:
            await client.transport.step()
        assert refused.value.code == "not_paused"


async def test_a_client_in_the_queue_has_no_transport(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect(), raw_peer(server) as waiting:
        assert (await waiting.hear())["type"] == "reactor.queued"
        await waiting.say({"type": "reactor.pause", "data": {"paused": True}, "id": 1})
        assert (await waiting.answer())["data"]["code"] == "not_admitted"


# ---- pause -----------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_no_step_begins_while_it_is_paused_and_the_rate_goes_on_after_it(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server, server.connect() as client:
        await trio.sleep(0.35)
        await client.transport.pause()
        assert client.transport.paused
        made = len(server.model.steps)
        await trio.sleep(100)
        assert len(server.model.steps) == made
        await client.transport.resume()
        assert not client.transport.paused
        await trio.sleep(0.5)
        frames = await client.take(8)
        assert shown(frames) == list(range(8))
        assert [frame.seq for frame in frames] == list(range(8))
        # Four before the pause; then the rate as before, from the moment of going on: no burst and no drift.
        begin = frames[4].pts
        assert 100.35 <= begin < 100.37
        assert np.diff(times(frames[4:])) == pytest.approx([0.1] * 3)


async def test_a_pause_stops_the_picture_at_once_and_queued_frames_are_shown_afterwards(autojump_clock):
    async with open_server(Film, config={"batch": 8}, step_cost=0.5) as server, server.connect() as client:
        first = await client.take(3)
        await client.transport.pause()
        await trio.sleep(50)
        assert client.statistics().tracks["main_video"].frames == 3
        resumed = trio.current_time()
        await client.transport.resume()
        rest = await client.take(13)
        assert shown(first + rest) == list(range(16))
        assert [frame.seq for frame in rest] == list(range(3, 16))
        gaps = np.diff(times(rest))
        assert times(rest)[0] == pytest.approx(resumed)
        assert gaps == pytest.approx([gaps[0]] * len(gaps)), "no burst"


async def test_a_pause_is_no_underrun_of_sound(autojump_clock):
    class Speaking(Output):
        picture: Video
        voice: Audio

    class Model(ReactorPipeline):
        output: Speaking

        def inference(self):
            while True:  # a quarter of a second of sound each time
                yield Speaking(picture=picture(1), voice=np.zeros((1, 12_000), np.int16))

    async with open_server(Model, step_cost=0.125) as server, server.connect() as client:
        await client.take(3, "picture")
        await client.transport.pause()
        await trio.sleep(7)
        await client.transport.step()
        await trio.sleep(7)
        await client.transport.resume()
        frames = await client.take(6, "picture")
        assert np.diff(times(frames))[-2:] == pytest.approx([0.25, 0.25])
        assert b"reactor_underruns_total 0.0" in server.runtime.metrics.exposition()


async def test_no_figure_counts_a_pause(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await client.take(3)
        await client.transport.pause()
        await client.command("set_value", value=1)
        await trio.sleep(100)
        await client.transport.step()
        await trio.sleep(100)
        await client.command("set_value", value=0)
        await trio.sleep(100)
        no_command = encode_client_text("reactor.pause", {"paused": False})
        await internals(client).connection.send(no_command)
        await trio.sleep(0.05)
        await client.command("set_value", value=2)
        await trio.sleep(1)
        figures = client.statistics()
        assert figures.tracks["main_video"].interval.p95 == pytest.approx(0.1)
        assert figures.command_to_picture.count == 1
        assert figures.command_to_picture.p95 < 0.2
        text = server.runtime.metrics.exposition().decode()
    measured = ("reactor_frame_interval_", "reactor_command_")
    sums = [line for line in text.splitlines() if line.startswith(measured) and "_sum" in line]
    assert len(sums) >= 3
    assert all(float(line.split()[-1]) < 5 for line in sums), sums


async def test_a_pause_in_the_middle_of_a_long_step_stops_the_picture_now_and_is_applied_after_the_step(autojump_clock):
    async with open_server(Film, config={"batch": 4}, step_cost=1.0) as server, server.connect() as client:
        await client.take(1)
        await trio.sleep(0.05)
        began = trio.current_time()
        await client.transport.pause()
        assert 0.5 < trio.current_time() - began <= 1.0, "the step that ran is finished"
        steps = len(server.model.steps)
        assert client.statistics().tracks["main_video"].frames == 1
        assert await client.command("ask") == steps, "a chunk that finds no room does not keep commands waiting"
        assert trio.current_time() - began <= 1.0


async def test_a_batch_that_waits_for_room_keeps_no_command_of_a_pause_waiting(autojump_clock):
    def cost(step: int) -> float:  # the last step is early: its frames wait for those before it
        return 0.7 if step < 6 else 0.01

    async with open_server(Film, config={"batch": 8}, step_cost=cost) as server, server.connect() as client:
        await trio.sleep(4.8)  # while the seventh batch waits
        assert len(server.model.steps) == 7
        began = trio.current_time()
        await client.transport.pause()
        assert await client.command("ask") == 7
        assert trio.current_time() == began
        arrived = client.statistics().tracks["main_video"].frames
        await trio.sleep(50)
        await client.transport.resume()
        frames = await client.take(60)
        assert shown(frames) == list(range(60))
        assert min(np.diff(times(frames[arrived:]))) > 0.07, "no burst, although more frames waited than there are places"


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_pause_behind_a_text_that_is_checked_stops_the_steps_at_once(how, autojump_clock):
    class Told(Film):
        @event
        def say(self, text: str = InputField(moderate=True)) -> None:
            self.log.append("said")

    async def slowly(text: str, *, command: str, field: str) -> None:
        await trio.sleep(3)

    answers: list[str] = []

    async def send(name: str, call: Callable[[], Awaitable[Any]]) -> None:
        await call()
        answers.append(name)

    async with open_server(Told, moderate=slowly, **how) as server, server.connect() as client:
        await client.take(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "say", partial(client.command, "say", text="a dog"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(send, "pause", client.transport.pause)
            await trio.testing.wait_all_tasks_blocked()
            made = len(server.model.steps)
        assert answers == ["say", "pause"]
        await trio.sleep(1)
        assert len(server.model.steps) == made
        await client.transport.resume()
        await client.take(10)


@pytest.mark.parametrize("between", ["resume", "step"])
@pytest.mark.parametrize("how", [{}, {"thread": True}, {"isolation": "process"}], ids=["inline", "thread", "process"])
async def test_a_resume_that_waits_does_not_undo_the_pause_after_it(how, between, autojump_clock):
    class Told(Film):
        @event
        def say(self, text: str = InputField(moderate=True)) -> None:
            self.log.append(text)

    async def slowly(text: str, *, command: str, field: str) -> None:
        await trio.sleep(3)

    async with open_server(Told, moderate=slowly, step_cost=0.01, **how) as server, server.connect() as client:
        await client.take(5)
        await client.transport.pause()
        made = len(server.model.steps)
        async with trio.open_nursery() as nursery:
            for call in (
                partial(client.command, "say", text="x"), getattr(client.transport, between),
                partial(client.command, "say", text="y"), client.transport.pause,
            ):  # fmt: skip
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(5)
            assert "x" in server.model.log
            assert "y" not in server.model.log
            assert len(server.model.steps) == made
        await trio.sleep(1)
        assert len(server.model.steps) == made
        await client.transport.resume()
        await client.take(10)


async def test_a_short_pause_is_not_caught_up_with(autojump_clock):
    async with open_server(Film, config={"batch": 8}, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(3)
        assert times(frames) == pytest.approx([0.1, 0.2, 0.3])
        await trio.sleep(0.09)
        await client.transport.pause()
        await trio.sleep(0.05)
        assert trio.current_time() == pytest.approx(0.44)
        await client.transport.resume()
        assert times(await client.take(5)) == pytest.approx([0.44, 0.54, 0.64, 0.74, 0.84])


@in_all_placements
async def test_the_next_step_begins_as_late_as_without_the_pause(placement, autojump_clock):
    async with open_server(Film, config={"batch": 8}, step_cost=0.1, **placement) as server, server.connect() as client:
        await client.take(3)
        await client.transport.pause()
        await trio.sleep(50)
        made, resumed = len(server.model.steps), trio.current_time()
        await client.transport.resume()
        await client.take(5)
        await trio.sleep(0.1)
        # Five frames waited, half a second of film, and the step takes a tenth.
        assert 0.25 < server.model.steps[made] - resumed < 0.4


async def test_a_model_that_is_paused_before_its_first_step_makes_none(autojump_clock):
    class Late(Film):
        @connected
        async def join(self) -> None:
            await trio.sleep(1)

    async with open_server(Late, step_cost=0.01) as server, server.connect() as client:
        await client.transport.pause()
        assert trio.current_time() == 1
        await trio.sleep(5)
        assert server.model.steps == []
        await client.transport.restart()
        await client.transport.step()
        assert shown(await client.take(1)) == [0]
        assert server.model.log.count("inference") == 1


async def test_a_model_that_waits_for_slow_clients_is_paused_as_well(autojump_clock):
    async with open_server(Film, step_cost=0.01, slow_client="hold") as server, server.connect() as client:
        await client.take(3)
        await client.transport.pause()
        made = len(server.model.steps)
        await trio.sleep(50)
        assert len(server.model.steps) == made
        await client.transport.step(2)
        await trio.sleep(5)
        assert len(server.model.steps) == made + 2
        await client.transport.resume()
        await client.take(10)


@in_all_placements
async def test_a_paused_model_takes_settings_and_calls_handlers(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server, server.connect() as client:
        await client.take(2)
        await client.transport.pause()
        before = trio.current_time()
        await client.command("set_value", value=1)
        assert client.state["value"] == 1
        assert await client.command("ask") == len(server.model.steps)
        assert trio.current_time() == before, "at once"
        await client.transport.resume()
        assert (await client.take_after()).data[0, 0, 0] >= 100


async def test_waiting_for_a_frame_of_a_paused_session_raises_with_the_reason(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        await client.transport.pause()
        with pytest.raises(trio.TooSlowError, match=r"; the session is paused$"):
            await client.take(10)


async def test_pausing_twice_sends_one_message(autojump_clock):
    told: list[TransportChanged] = []
    async with (
        open_server(Film, step_cost=0.01) as server, server.connect() as client, server.connect(role="viewer") as viewer,
    ):  # fmt: skip
        with observe(viewer, lambda event: told.append(event) if isinstance(event, TransportChanged) else None):
            for _ in range(2):
                await client.transport.pause()
                await server.settle()
            assert viewer.transport.paused
            for _ in range(2):
                await client.transport.resume()
                await server.settle()
            assert not viewer.transport.paused
    assert told == [TransportChanged(True), TransportChanged(False)]


async def test_a_viewer_that_comes_learns_that_it_is_paused_and_sees_the_picture(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        await client.transport.pause()
        await trio.sleep(5)
        async with server.connect(role="viewer") as viewer:
            assert viewer.transport.paused
            assert len(await viewer.take(1)) == 1


async def test_a_client_that_comes_back_finds_it_paused(autojump_clock):
    async with open_server(Film, step_cost=0.01, resume_window=30) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.transport.pause()
            token = client.resume_token
            await client.vanish()
            steps = len(server.model.steps)
            await trio.sleep(5)
            async with server.connect(resume=token) as back:
                assert back.transport.paused
                assert back.transport.allowed == ("pause", "step", "restart")
                await trio.sleep(5)
                assert len(server.model.steps) == steps
                await back.transport.resume()
                await back.take(3)
                assert len(server.model.steps) > steps


async def test_time_limits_count_while_it_is_paused(autojump_clock):
    async with open_server(Film, step_cost=0.01, limits={"session_idle": 20}) as server, server.connect() as client:
        await trio.sleep(1)
        await client.transport.pause()
        paused = trio.current_time()
        with pytest.raises(SessionEnded, match="idle"):
            await client.take(100)
        assert trio.current_time() - paused == pytest.approx(20, abs=0.02)


@in_all_placements
async def test_a_client_that_leaves_while_it_is_paused_ends_the_session_at_once(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.transport.pause()
            await trio.sleep(3)
            left = trio.current_time()
        await server.sessions[0].ended.wait()
        assert trio.current_time() == left
        assert server.model.log[-3:] == ["disconnected 0", "closed", "session_ended"]
        async with server.connect() as client:
            assert not client.transport.paused
            assert shown(await client.take(2)) == [0, 1]


async def test_a_server_that_drains_ends_a_paused_session(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        await client.transport.pause()
        await server.drain()
        assert server.sessions[0].reason == "draining"
        assert client.ended == "draining"


# ---- step ------------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_exactly_the_steps_that_were_asked_for_are_made_and_shown(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server, server.connect() as client:
        await trio.sleep(0.25)
        await client.transport.pause()
        made, arrived = len(server.model.steps), client.statistics().tracks["main_video"].frames
        for steps in (1, 3):
            await client.transport.step(steps)
            await trio.sleep(10)
            made += steps
            assert len(server.model.steps) == made
            assert client.statistics().tracks["main_video"].frames == made >= arrived
            assert client.transport.paused
        assert shown(await client.take(made)) == list(range(made))


async def test_requested_steps_add_up_and_a_pause_cancels_the_remaining_ones(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await trio.sleep(0.25)
        await client.transport.pause()
        made = len(server.model.steps)
        await client.transport.step(2)
        await client.transport.step(2)
        await trio.sleep(10)
        assert len(server.model.steps) == made + 4
        await client.transport.step(1000)
        await trio.sleep(1.0)
        await client.transport.pause()
        stopped = len(server.model.steps)
        assert made + 4 + 9 <= stopped <= made + 4 + 12, "at the model's rate"
        await trio.sleep(10)
        assert len(server.model.steps) == stopped


async def test_a_step_sees_each_command_before_it_and_its_answer_names_it(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, raw_session(server) as peer:
        await trio.sleep(0.25)
        await peer.say({"type": "reactor.pause", "data": {"paused": True}, "id": 1})
        step = (await peer.answer())["data"]["step"]
        await peer.command("set_value", 2, value=2)
        await peer.say({"type": "reactor.step", "data": {"steps": 2}, "id": 3})
        assert [(await peer.answer())["data"] for _ in range(2)] == [{"step": step, "reply": None}] * 2
        await trio.sleep(5)
        await peer.command("ask", 4)
        assert (await peer.answer())["data"] == {"step": step + 2, "reply": step + 2}


async def test_a_step_that_makes_no_frame_is_not_counted(autojump_clock):
    class Hesitant(Film):
        def inference(self):
            number = 0
            while True:
                yield Idle
                yield picture(number)
                number += 1

    async with open_server(Hesitant, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        await client.transport.pause()
        await trio.sleep(1)
        before = client.statistics().tracks["main_video"].frames
        await client.transport.step(2)
        await trio.sleep(1)
        assert client.statistics().tracks["main_video"].frames == before + 2


async def test_an_app_is_paused_and_stepped_also_without_media(autojump_clock):
    class Quiet(App):
        def generate(self, input):  # noqa: A002
            self.number += 1

    for model in (App, Quiet):
        async with open_server(model, step_cost=0.01) as server, server.connect() as client:
            await trio.sleep(0.25)
            await client.transport.pause()
            made = server.model.number
            await trio.sleep(5)
            assert server.model.number == made
            await client.transport.step(3)
            await trio.sleep(5)
            assert server.model.number == made + 3


async def test_of_several_sessions_only_the_paused_one_stands_still(autojump_clock):
    for model in (Together, type("Two", (Film,), {"max_sessions": 2, "__module__": __name__, "__qualname__": "Two"})):
        async with open_server(model, step_cost=0.01) as server, server.connect() as one, server.connect() as other:
            await trio.sleep(0.25)
            await one.transport.pause()
            await server.settle()
            before = [client.statistics().tracks["main_video"].frames for client in (one, other)]
            await trio.sleep(2)
            after = [client.statistics().tracks["main_video"].frames for client in (one, other)]
            assert after[0] == before[0]
            assert after[1] - before[1] == 20
            await one.transport.step()  # and what had waited when the pause came
            await trio.sleep(2)
            made = one.statistics().tracks["main_video"].frames
            await one.transport.step(2)
            await trio.sleep(2)
            assert one.statistics().tracks["main_video"].frames == made + 2


async def test_input_frames_of_a_pause_are_not_played_afterwards(autojump_clock):
    class Eyes(Input):
        camera: Video

    class Mirror(ReactorPipeline):
        output: Picture
        input: Eyes
        fps = 10

        async def inference(self):
            while True:
                frames = await self.input.camera.read(mode=ReadMode.FIFO)
                yield frames[0].data

    async with open_server(Mirror, step_cost=0.01) as server, server.connect() as client:
        for value in range(3):
            await client.push("camera", picture(value))
            await trio.sleep(0.1)
        assert shown(await client.take(3)) == [0, 1, 2]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.transport.pause)
            await trio.sleep(0.1)
            for value in range(10, 20):  # the first ends the step that waits for it
                await client.push("camera", picture(value))
                await trio.sleep(0.1)
        await client.transport.step()
        assert shown(await client.take(2)) == [10, 19]


# ---- restart ---------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_restart_with_the_state_kept_runs_no_hook(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server, server.connect() as client:
        await client.command("set_value", value=1)
        await client.take_after()
        await client.transport.restart()
        frame = await client.take_after()
        assert frame.data[0, 0, 0] == 100, "the first picture of the new run, with the setting"
        assert server.model.log == ["session_started", "connected", "inference", "closed", "inference"]
        assert client.state["value"] == 1
        assert len(server.sessions) == 1


@in_all_placements
async def test_a_fresh_restart_is_the_end_of_a_session_and_the_begin_of_another_to_the_model(placement, autojump_clock):
    async with open_server(Film, step_cost=0.01, **placement) as server, server.connect() as client:
        await client.command("set_value", value=1)
        before = await client.take_after()
        await client.transport.restart("fresh")
        frame = await client.take_after()
        assert frame.data[0, 0, 0] == 0
        assert (frame.seq > before.seq, frame.pts > before.pts) == (True, True)
        assert server.model.log == [
            "session_started", "connected", "inference", "disconnected 1", "closed", "session_ended",
            "session_started", "connected", "inference",
        ]  # fmt: skip
        await trio.sleep(0.2)
        assert client.state["value"] == 0
        assert [session.reason for session in server.sessions] == [None]


async def test_a_restart_drops_the_frames_that_the_old_run_had_queued(autojump_clock):
    async with open_server(Film, config={"batch": 8}, step_cost=0.1) as server, server.connect() as client:
        await client.take(3)
        await client.transport.restart()
        frames = await client.take(8)
        assert shown(frames)[-1] == 7
        assert shown(frames)[0] == 0
        assert frames[0].seq > 3
    assert server.model.log.count("inference") == 2


async def test_a_paused_session_that_is_restarted_stays_paused(autojump_clock):
    async with open_server(Film, step_cost=0.01) as server, server.connect() as client:
        await client.take(3)
        await client.transport.pause()
        await client.transport.restart()
        await trio.sleep(5)
        assert client.transport.paused
        assert server.model.log[-1] == "closed"
        await client.transport.step()
        assert (await client.take_after()).data[0, 0, 0] == 0


async def test_the_finally_of_an_async_generator_may_await_at_a_restart(autojump_clock):
    class Saving(Film):
        async def inference(self):
            try:
                while True:
                    await trio.lowlevel.checkpoint()
                    yield picture(1)
            finally:
                await trio.sleep(2)
                self.log.append("saved")

    async with open_server(Saving, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        began = trio.current_time()
        await client.transport.restart()
        assert trio.current_time() - began == pytest.approx(2, abs=0.02)
        assert server.model.log[-1] == "saved"
        await client.take(2)


async def test_a_generator_that_raises_at_a_restart_ends_the_session(autojump_clock):
    class Bad(Film):
        def inference(self):
            try:
                while True:
                    yield picture(1)
            finally:
                raise ValueError("no end")

    async with open_server(Bad, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            with pytest.raises(SessionEnded):
                await client.transport.restart()
            assert client.ended == "model_error"
        assert str(server.sessions[0].error) == "no end"


async def test_a_hook_that_raises_at_a_fresh_restart_ends_the_session(autojump_clock):
    class Once(Film):
        @connected
        def join(self) -> None:
            if "inference" in self.log:
                raise ValueError("only once")

    async with open_server(Once, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            with pytest.raises(SessionEnded):
                await client.transport.restart("fresh")
            assert client.ended == "model_error"
        assert str(server.sessions[0].error) == "only once"


#: what a fresh restart calls, in order
FRESH = ("disconnected", "closed", "session_ended", "made", "session_started", "connected")


def paired(at: str, does: Callable[[], Awaitable[None]]) -> type[Film]:
    """A model that does this at a place of its fresh restart, and notes each place that it has reached."""
    log: list[str] = []

    async def reached(place: str) -> None:
        log.append(place)
        if place == at and log.count(place) == (1 if FRESH.index(at) < 3 else 2):  # the first in the restart
            await does()

    class Made(Settings):
        def __post_init__(self) -> None:
            if at == "made" and "session_ended" in log:
                raise ValueError("made")

    class Paired(ReactorPipeline):
        output: Picture
        state: Made
        fps = 10
        hooks = log

        @session_started
        async def begin(self) -> None:
            await reached("session_started")

        @connected
        async def join(self) -> None:
            await reached("connected")

        @disconnected
        async def part(self) -> None:
            await reached("disconnected")

        @session_ended
        async def end(self) -> None:
            await reached("session_ended")

        async def inference(self):
            try:
                while True:
                    yield picture(1)
            finally:
                await reached("closed")

    return Paired


def in_pairs(log: list[str]) -> bool:
    """Whether each hook of a begin has one of an end, in the order of nested blocks."""
    opened: list[str] = []
    for place in log:
        match place:
            case "session_started" | "connected":
                opened.append(place)
            case "disconnected" | "session_ended":
                if not opened or opened.pop() != {"disconnected": "connected"}.get(place, "session_started"):
                    return False
    return not opened


@pytest.mark.parametrize("at", FRESH)
async def test_whatever_raises_at_a_fresh_restart_leaves_the_hooks_in_pairs(at, autojump_clock, caplog):
    async def fails():
        raise ValueError(at)

    model = paired(at, fails)
    only_logged = at in ("disconnected", "session_ended")
    with pytest.raises(Exception, match=f"^{at}$"):  # one of another process has a twin class
        async with open_server(model, step_cost=0.01) as server, server.connect() as client:
            await client.take(2)
            with nullcontext() if only_logged else pytest.raises(SessionEnded):
                await client.transport.restart("fresh")
            await client.take(2)
    assert in_pairs(model.hooks), model.hooks
    assert model.hooks.count("connected") == (2 if only_logged or at == "connected" else 1)
    assert model.hooks.count("session_started") == (1 if at in ("closed", "made") else 2)


@pytest.mark.parametrize("at", [place for place in FRESH if place != "made"])
async def test_a_client_that_leaves_in_a_fresh_restart_leaves_the_hooks_in_pairs(at, autojump_clock):
    async def waits():
        called = len(model.hooks)
        await trio.sleep(1)
        alone.append(len(model.hooks) == called)

    alone: list[bool] = []
    model = paired(at, waits)
    async with open_server(model, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            with trio.move_on_after(0.5):
                await client.transport.restart("fresh")
        ended = trio.current_time()
        await server.sessions[0].ended.wait()
        assert trio.current_time() - ended < 1, "it waits for the hook that runs, and for nothing else"
        assert alone == [True], "no hook runs beside it"
        assert server.model.state is None
        assert in_pairs(model.hooks), model.hooks
        assert model.hooks.count("closed") == 1
        begun = FRESH.index(at)
        assert model.hooks.count("session_started") == (2 if begun >= FRESH.index("session_started") else 1)
        assert model.hooks.count("connected") == (2 if at == "connected" else 1)


async def test_a_hook_of_a_fresh_restart_that_waits_for_an_input_frame_ends_with_its_client(autojump_clock):
    class Camera(Input):
        camera: Video

    class Looks(Film):
        media: Camera

        @session_started
        async def begin(self) -> None:
            if "session_ended" in self.log:
                await self.media.camera.read()

    async with open_server(Looks, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            with trio.move_on_after(0.5):
                await client.transport.restart("fresh")
        ended = trio.current_time()
        await server.sessions[0].ended.wait()
        assert trio.current_time() - ended < 1
        assert server.sessions[0].reason == "client_left"


async def test_no_code_sees_a_session_whose_client_has_left_in_a_fresh_restart(autojump_clock):
    """`connected` must not be set again after the client has left: it would keep the session, which is over."""

    class Slow(Film):
        @session_started
        async def begin(self) -> None:
            await trio.sleep(1)

    async with open_server(Slow, step_cost=0.01) as server:
        async with server.connect() as client:
            await client.take(2)
            with trio.move_on_after(0.5):
                await client.transport.restart("fresh")
        await server.sessions[0].ended.wait()
        assert not server.model.connected.is_set()
        assert SEEN_SESSION.get() is None


async def test_an_open_nursery_across_a_yield_survives_a_restart(autojump_clock):
    class Nursing(Film):
        async def inference(self):
            self.log.append("inference")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, math.inf)
                try:
                    while True:
                        yield picture(3)
                finally:
                    nursery.cancel_scope.cancel()

    async with open_server(Nursing, step_cost=0.01) as server, server.connect() as client:
        await client.take(2)
        await client.transport.restart()
        await client.take(4)
        assert server.model.log.count("inference") == 2
