"""`reactor.rewind`: a session goes back to a moment that it has kept, and goes on from there. Exact, in virtual time."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from reactor_trio.client import WorldChanged, observe
from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import (
    InputField,
    InputState,
    Moment,
    ReactorApp,
    ReactorPipeline,
    Saves,
    event,
    restored,
    saving,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import in_all_placements, picture, raw_peer, raw_session, shown
from tests.support.models import Note, Picture


class Settings(InputState):
    speed: int = InputField(default=1, ge=0, le=9)
    _number: int = 0


class Counter(ReactorPipeline):
    """Shows the sum of the speeds until now, which is its world."""

    output: Picture
    state: Settings
    saves = Saves()
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.log: list[str] = []

    @event
    def jump(self, to: int) -> None:
        self.state._number = to

    def inference(self):
        self.log.append("begun")
        try:
            while True:
                self.state._number += self.state.speed
                yield picture(self.state._number % 256)
        finally:
            self.log.append("closed")


@contextmanager
def refusal(code: str) -> Iterator[None]:
    with pytest.raises(CommandError) as raised:
        yield
    assert raised.value.code == code


async def landed(client) -> Any:
    """The first frame that was made after the newest command."""
    return await client.take_after()


@in_all_placements
async def test_a_rewind_goes_on_from_the_moment_that_it_lands_on(autojump_clock, placement):
    async with open_server(Counter, **placement) as server, server.connect() as client:
        assert client.worlds.may == ("rewind", "save", "fork")
        await client.take(10)
        moment = await client.worlds.rewind(step=3)
        assert (moment.step, round(moment.age, 6)) == (3, 0.4)
        frames = [await landed(client), *await client.take(5)]
        assert shown(frames) == [5, 6, 7, 8, 9, 10]
        assert server.model.log == ["begun", "closed", "begun"]


async def test_the_numbers_of_steps_and_frames_go_on(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        frames = await client.take(10)
        for back in (3, 2, 5):
            await client.worlds.rewind(steps=back)
            frames += await client.take(6)
        assert all(a.seq < b.seq and a.pts < b.pts for a, b in itertools.pairwise(frames))
        assert all(a.step < b.step or (a.step == b.step and "again" in b.meta) for a, b in itertools.pairwise(frames))


async def test_steps_and_seconds_count_from_the_shown_picture_along_the_past_of_the_world(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        on_screen = (await client.take(20))[-1]
        await client.worlds.rewind(steps=4)
        assert shown([await landed(client)]) == [shown([on_screen])[0] - 4 + 1]
        on_screen = (await client.take(8))[-1]
        await client.worlds.rewind(seconds=0.5)
        assert shown([await landed(client)]) == [shown([on_screen])[0] - 5 + 1]


async def test_further_back_than_the_oldest_moment_is_the_oldest_and_the_reply_says_so(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(5)
        moment = await client.worlds.rewind(seconds=1000)
        assert moment.step == 0
        assert shown([await landed(client)]) == [2]


async def test_settings_are_of_the_moment_and_every_client_is_told_after_the_answer(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            await client.take(5)
            await client.command("set_speed", speed=5)
            await client.take(5)
            await client.worlds.rewind(step=2)
            assert shown([await landed(client), *await client.take(2)]) == [4, 5, 6]
            assert client.state == viewer.state == {"speed": 1}


async def test_commands_before_it_are_undone_and_those_after_it_see_the_moment(autojump_clock):
    async with open_server(Counter) as server, raw_session(server) as peer:
        await trio.sleep(1)
        await peer.command("jump", 1, to=90)
        await peer.command("reactor.rewind", 2, step=4)
        await peer.command("set_speed", 3, speed=3)
        await peer.command("reactor.rewind", 4, step=2)
        await peer.command("reactor.rewind", 5, step=3)
        answers = [await peer.answer() for _ in range(5)]
        assert [(answer["type"], answer["id"]) for answer in answers] == [("reactor.ack", n) for n in range(1, 6)]
        landings = [answer["data"]["reply"] and answer["data"]["reply"]["moment"]["step"] for answer in answers]
        assert landings == [None, 4, None, 3, 3]  # the last two share a place, and only the last is carried out
        assert server.model.state.speed == 1


async def test_a_paused_session_stays_paused_and_makes_no_frame_of_the_old_future(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        await client.playback.step(3)
        await trio.sleep(5)
        await client.worlds.rewind(step=4)
        await trio.sleep(5)
        await client.playback.step()
        assert shown([await landed(client)]) == [6]
        assert client.playback.paused


async def test_clients_that_understand_it_hear_of_the_moment_before_the_answer_and_the_others_hear_nothing(autojump_clock):
    async with open_server(Counter) as server, raw_session(server, "worlds=1") as peer:
        async with raw_peer(server, "role=viewer") as old, raw_peer(server, "role=viewer&worlds=1") as new:
            assert "worlds" not in (await old.hear())["data"]
            assert (await new.hear())["data"]["worlds"] == {"may": []}
            await trio.sleep(1)
            await peer.command("reactor.rewind", 1, step=3)
            moment = await peer.hear()
            assert moment["type"] == "reactor.moment"
            assert moment["data"]["to"]["step"] == 3
            assert moment["data"]["why"] == "rewind"
            answer = await peer.answer()
            assert answer["data"]["step"] == moment["data"]["step"]
            assert (await new.hear())["type"] == "reactor.moment"
            with trio.move_on_after(5) as nothing:
                await old.hear()
            assert nothing.cancelled_caught


async def test_an_observer_sees_the_change(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        seen = []
        with observe(client, lambda event: seen.append(event) if isinstance(event, WorldChanged) else None):
            await client.take(8)
            moment = await client.worlds.rewind(step=3)
            undone = await client.worlds.undo()
        assert [(each.to, each.why) for each in seen] == [(moment, "rewind"), (undone, "rewind")]
        assert [each.from_age for each in seen] == pytest.approx([0.8, 0.4])  # of what was on screen


async def test_the_age_before_is_told_in_the_message(autojump_clock):
    async with open_server(Counter) as server, raw_session(server, "worlds=1") as peer:
        await trio.sleep(0.95)
        await peer.command("reactor.rewind", 1, step=3)
        assert (await peer.hear())["data"]["from"] == pytest.approx(1.0)


# ---- the past, and undo ------------------------------------------------------------------------------------------------


async def test_undo_goes_back_to_the_world_from_before_the_rewind(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(20)
        await client.playback.pause()
        before = server.model.state._number
        await client.worlds.rewind(step=3)
        await client.playback.step(2)
        await client.take(2)
        await client.worlds.undo()
        assert server.model.state._number == before
        await client.playback.resume()
        assert shown([await landed(client)]) == [before + 1]


@in_all_placements
async def test_rewinds_without_a_step_between_them_are_taken_back_together(autojump_clock, placement):
    """As who holds a key, or drags along a strip, makes them."""
    async with open_server(Counter, **placement) as server, server.connect() as client:
        await client.take(20)
        await client.playback.pause()
        newest = (await client.worlds.list()).moments[-1]
        for step in (15, 11, 17, 4):
            await client.worlds.rewind(step=step)
        assert (await client.worlds.list()).undo == newest
        assert await client.worlds.undo() == newest
        await client.worlds.rewind(step=9)
        await client.playback.step()
        await client.take_after()
        back = await client.worlds.rewind(step=2)
        assert back.step == 2
        assert (await client.worlds.undo()).age == pytest.approx(1.1)  # a step was between them
        assert (await client.worlds.undo()).age == pytest.approx(0.3)  # and back again


async def test_undo_is_over_after_a_minute_and_without_a_rewind_there_is_none(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(3)
        with refusal("no_moment"):
            await client.worlds.undo()
        await client.worlds.rewind(step=1)
        await trio.sleep(60)
        with refusal("no_moment"):
            await client.worlds.undo()


async def test_moments_ahead_are_reachable_until_a_step_is_made(autojump_clock):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        await client.worlds.rewind(step=2)
        assert (await client.worlds.rewind(step=6)).step == 6
        assert (await client.worlds.rewind(step=3)).step == 3
        await client.playback.step()
        assert (await landed(client)).step > 6
        assert (await client.worlds.rewind(step=6)).step == 3


# ---- what cannot be ----------------------------------------------------------------------------------------------------


class Forgetful(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield picture(1)


class Locked(Counter):
    saves = Saves(may=("save",))


async def test_a_model_without_saves_says_what_to_write_and_a_locked_one_what_it_allows(autojump_clock):
    async with open_server(Forgetful) as server, server.connect() as client:
        assert client.worlds.may == ()
        with pytest.raises(CommandError, match="saves no worlds; a model that does has `saves = Saves\\(\\)`") as raised:
            await client.worlds.rewind(steps=1)
        assert raised.value.code == "not_saveable"
    async with open_server(Locked) as server, server.connect() as client:
        with refusal("not_allowed"):
            await client.worlds.rewind(steps=1)


async def test_a_viewer_may_not(autojump_clock):
    async with open_server(Counter) as server, server.connect(), server.connect(role="viewer") as viewer:
        assert viewer.worlds.may == ()
        with refusal("not_allowed"):
            await viewer.worlds.rewind(steps=1)


@pytest.mark.parametrize(
    "data", [{}, {"step": 1, "steps": 2}, {"seconds": -1}, {"steps": 0}, {"step": "x"}, {"undo": False}]
)
async def test_nonsense_is_refused_and_changes_nothing(autojump_clock, data):
    async with open_server(Counter) as server, server.connect() as client:
        await client.take(3)
        with refusal("invalid_command"):
            await client.command("reactor.rewind", **data)
        assert shown(await client.take(2)) == [4, 5]


async def test_without_a_moment_there_is_none_to_go_to(autojump_clock):
    class Waits(Counter):
        def inference(self):
            while True:
                yield None

    async with open_server(Waits) as server, server.connect() as client:
        await trio.sleep(1)
        with refusal("no_moment"):
            await client.worlds.rewind(steps=1)


class Unsaved(Counter):
    saves = Saves("thing")

    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.thing = lambda: None


async def test_a_value_that_cannot_be_saved_is_said_once_and_the_session_goes_on(autojump_clock, caplog):
    async with open_server(Unsaved) as server, server.connect() as client:
        with caplog.at_level(logging.WARNING):
            assert shown(await client.take(10)) == list(range(1, 11))
        said = [record.getMessage() for record in caplog.records if "thing" in record.getMessage()]
        assert len(said) == 1
        with pytest.raises(CommandError, match="thing") as raised:
            await client.worlds.rewind(steps=1)
        assert raised.value.code == "cannot_save"
        await client.command("set_speed", speed=2)
        first, second, third = shown([await landed(client), *await client.take(2)])
        assert (second - first, third - second) == (2, 2)


# ---- the author's hooks ------------------------------------------------------------------------------------------------


class Hooked(Counter):
    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.cache = 0
        self.moments: list[Moment] = []
        self.failing: set[int] = set()

    @saving
    def pack(self) -> dict[str, Any]:
        return {"cache": self.cache}

    @restored
    async def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        if moment.step in self.failing:
            self.cache = -1
            raise OSError("no cache")
        self.cache = saved["cache"]
        self.moments.append(moment)
        await self.send(Note(text=f"back at {moment.step}"))

    def inference(self):
        while True:
            self.state._number += self.state.speed
            self.cache += 10
            yield picture(self.state._number + self.cache)


async def test_what_saving_returns_is_given_to_restored_which_may_send(autojump_clock):
    async with open_server(Hooked) as server, server.connect() as client:
        await client.take(10)
        await client.worlds.rewind(step=3)
        assert shown([await landed(client)]) == [55]
        assert (await client.next_message()).data == {"text": "back at 3"}
        (moment,) = server.model.moments
        assert (moment.step, moment.why, moment.version, moment.same_process) == (3, "rewind", 1, True)


async def test_a_restored_that_raises_leaves_the_world_as_it_was(autojump_clock, caplog):
    async with open_server(Hooked) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        await trio.sleep(1)
        number, cache = server.model.state._number, server.model.cache
        server.model.failing = {3}
        with pytest.raises(CommandError) as raised:
            await client.worlds.rewind(step=3)
        assert raised.value.code == "restore_failed"
        assert (server.model.state._number, server.model.cache) == (number, cache)
        await client.playback.step()
        assert shown([await landed(client)]) == [number + 1 + cache + 10]


async def test_a_world_that_cannot_be_put_back_either_is_the_models_failure(autojump_clock):
    async with open_server(Hooked) as server, server.connect() as client:
        await client.take(10)
        server.model.failing = set(range(100))
        with pytest.raises(SessionEnded, match="model_error"):
            await client.worlds.rewind(step=3)
        assert client.ended == "model_error"


# ---- other kinds, and several sessions ----------------------------------------------------------------------------------


class Async(Counter):
    async def inference(self):
        while True:
            self.state._number += self.state.speed
            await trio.sleep(0.01)
            yield picture(self.state._number % 256)


class App(ReactorApp):
    output: Picture
    state: Settings
    saves = Saves("history")
    fps = 10

    def load(self, config_path):
        self.history = [0]

    def generate(self, input):  # noqa: A002
        self.history = [*self.history[-3:], self.history[-1] + self.state.speed]
        return Picture(main_video=picture(self.history[-1]))


class Batched(ReactorPipeline):
    output: Picture
    state: Settings
    saves = Saves()
    fps = 10
    max_sessions = 2

    def batch_inference(self, models):
        for model in models:
            model.state._number += model.state.speed
        return [picture(model.state._number) for model in models]


class Several(Counter):
    max_sessions = 2


@pytest.mark.parametrize("model", [Counter, Async, App, Batched, Several])
async def test_each_kind_goes_on_as_a_session_that_was_never_rewound(autojump_clock, model):
    """After any commands, a rewind and the same commands again: the same pictures."""
    chance = random.Random(7)
    async with open_server(model) as server, server.connect() as client:
        await client.playback.pause()
        made: list[tuple[int, int]] = []  # the speed before each step, and its picture
        first: dict[int, int] = {}  # step of the session -> number of the world's step

        async def step(speed: int) -> int:
            await client.command("set_speed", speed=speed)
            await client.playback.step()
            return shown([await landed(client)])[0]

        for _ in range(20):
            speed = chance.randrange(10)
            frame_step = len(made)
            made.append((speed, await step(speed)))
            first[frame_step] = len(made)
        for _ in range(10):
            to = chance.randrange(18)
            steps = len(made)
            moment = await client.worlds.rewind(steps=len(made) - to - 1) if to + 1 < len(made) else None
            assert moment is not None
            again = [await step(speed) for speed, _ in made[to + 1 : steps]]
            assert again == [value for _, value in made[to + 1 : steps]]


async def test_a_rewind_of_one_session_leaves_the_other_alone(autojump_clock):
    async with open_server(Several) as server, server.connect() as one, server.connect() as other:
        seen = shown(await other.take(5))
        await one.take(10)
        await one.worlds.rewind(step=2)
        await one.take(5)
        seen += shown(await other.take(20))
        assert seen == list(range(1, 26))
