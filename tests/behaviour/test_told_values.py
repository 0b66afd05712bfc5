"""The values of settings: the welcome has them, and each client is told what differs from what it set itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.client import Client, StateChanged
from reactor_trio.client.session_events import CommandAnswered, Message
from reactor_trio.client.session_view import internals
from reactor_trio.crossing.messages import StateValuesChanged
from reactor_trio.errors import CommandError
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    VideoModel,
    connected,
    event,
)
from reactor_trio.interface.json_values import MOST_BYTES
from reactor_trio.testing import open_server
from tests.support.behaviour_models import ack, in_all_placements, picture, raw_peer, raw_session, refusal
from tests.support.models import Picture
from tests.support.resume_peers import returner

COST = 0.25


class Settings(InputState):
    x: int = 0
    amount: float = InputField(default=1.0, ge=0.0, le=9.0)
    limited: int = 0
    words: list[str] = InputField(default=[])
    seed: int | None = 3
    anything: Any = None
    photo: UploadedFile | None = InputField(default=None)
    _private: int = 3


DEFAULTS: dict[str, Any] = {
    "x": 0, "amount": 1.0, "limited": 0, "words": [], "seed": 3, "anything": None, "photo": None
}  # fmt: skip


class Said(ModelMessage):
    what: str


class Scripted(ReactorPipeline):
    """Does at each step what the config's `script` says for that."""

    output: Picture
    state: Settings
    fps = 4

    def load(self, config):
        self.script: dict[int, Callable[[Any], None]] = config.get("script", {})

    @event
    def set_limited(self, limited: int):
        self.state.limited = min(limited, 10)

    @event
    def shuffle(self):
        self.state.seed = 99
        self.state.words.append("shuffled")

    @event
    def fail(self):
        self.state.x = 13
        raise ValueError("no")

    def inference(self):
        number = 0
        while True:
            if number in self.script:
                self.script[number](self)
            yield picture(number % 256)
            number += 1


class Waiting(Scripted):
    """Never computes: commands are applied as they come."""

    def inference(self):
        while True:
            yield Idle


def scripted(**steps: Callable[[Any], None]) -> dict[str, Any]:
    """The options of a server whose model does something at `step_N`."""
    script = {int(name.removeprefix("step_")): do for name, do in steps.items()}
    return {"config": {"script": script}, "step_cost": COST}


def change(**values: Any) -> Callable[[Any], None]:
    def do(model: Any) -> None:
        for name, value in values.items():
            setattr(model.state, name, value)

    return do


def told(**values: Any) -> dict[str, Any]:
    return {"type": "reactor.state", "data": values}


class Ear:
    """What a client hears besides frames, with the time of each."""

    def __init__(self, client: Client) -> None:
        self.heard: list[tuple[float, Any]] = []
        internals(client).receiver.observers.append(self._hear)

    def _hear(self, what: Any) -> None:
        if isinstance(what, StateChanged):
            self.heard.append((round(trio.current_time(), 6), dict(what.values)))
        elif isinstance(what, CommandAnswered):
            self.heard.append((round(trio.current_time(), 6), what.id))
        elif isinstance(what, Message):
            self.heard.append((round(trio.current_time(), 6), what.data["what"]))

    @property
    def values(self) -> list[Any]:
        return [what for _, what in self.heard]


# ---- the welcome ---------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_the_welcome_has_the_value_of_each_setting(placement, autojump_clock):
    async with open_server(Scripted, step_cost=COST, **placement) as server, server.connect() as client:
        assert client.state == DEFAULTS
        ear = Ear(client)
        await client.take(4)
        assert (client.state, ear.heard) == (DEFAULTS, [])


async def test_a_model_without_a_state_has_no_values(autojump_clock):
    class Loop(ReactorModel):
        output: Picture

    class Blocks(VideoModel):
        def start_session(self):
            return

    class Bare(ReactorPipeline):
        output: Picture

        def inference(self):
            yield Idle

    for kind in (Loop, Blocks, Bare):
        async with open_server(kind) as server, raw_peer(server) as peer:
            welcome = await peer.hear()
            assert (welcome["type"], welcome["data"]["state"]) == ("reactor.welcome", {})


@in_all_placements
async def test_settings_that_differ_from_their_defaults_are_sent_first(placement, autojump_clock):
    class Made(Settings):
        def __post_init__(self):
            self.seed = 77

    class Model(Scripted):
        state: Made

        @connected
        async def request(self):
            self.state.x = 5
            await self.send(Said(what="hello"))
            await trio.sleep(1)
            self.state.x = 6

    async with open_server(Model, step_cost=COST, **placement) as server, server.connect() as client:
        ear = Ear(client)
        await client.take(2)
        assert ear.heard == [(0, {"seed": 77}), (0, "hello"), (1, {"x": 6})]
        assert client.state == DEFAULTS | {"seed": 77, "x": 6}


# ---- what a client sets itself -------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_client_gets_no_message_of_the_settings_that_it_sets(placement, autojump_clock):
    async with open_server(Waiting, **placement) as server, server.connect() as client:
        ear = Ear(client)
        for value in (5, 6, 5):
            await client.command("set_x", x=value)
            assert client.state["x"] == value
        await client.command("set_amount", amount=2)  # 2.0 in the model, which is the same in JSON
        await client.command("set_words", words=["a"])
        await client.command("set_limited", limited=3)  # a handler, which leaves it as it is
        with pytest.raises(CommandError):
            await client.command("set_amount", amount=10)
        await trio.sleep(1)
        assert ear.values == [1, 2, 3, 4, 5, 6, 7]
        assert client.state == DEFAULTS | {"x": 5, "amount": 2, "words": ["a"], "limited": 3}


async def test_a_client_gets_no_message_of_its_setting_without_an_id_or_when_superseded(autojump_clock):
    async with open_server(Scripted, step_cost=COST) as server, raw_session(server) as peer:
        for value in (1, 2, 3):
            await peer.command("set_x", x=value)
        await peer.command("set_x", 7, x=4)
        await peer.command("shuffle", 8)
        assert [await peer.hear() for _ in range(3)] == [ack(7, 0), ack(8, 0), told(seed=99, words=["shuffled"])]


@in_all_placements
async def test_settings_that_a_handler_changes_are_sent_after_its_answer(placement, autojump_clock):
    async with open_server(Waiting, **placement) as server, server.connect() as client:
        ear = Ear(client)
        await client.command("set_limited", limited=50)
        await trio.sleep(1)
        await client.command("shuffle")
        await server.settle()
        assert client.state["seed"] == 99
        await trio.sleep(1)
        with pytest.raises(CommandError, match=r"handler of \w+ raised"):
            await client.command("fail")
        await trio.sleep(1)
        assert ear.heard == [
            (0, 1), (0, {"limited": 10}), (1, 2), (1, {"seed": 99, "words": ["shuffled"]}), (2, 3), (2, {"x": 13})
        ]  # fmt: skip
        assert client.state == DEFAULTS | {"limited": 10, "seed": 99, "words": ["shuffled"], "x": 13}


async def test_a_refused_command_sets_nothing_in_the_client(autojump_clock):
    class Model(Waiting):
        @event
        def set_x(self, x: int):
            self.state.x = -x
            raise CommandError("never", "not today")

    async with open_server(Model) as server, raw_session(server) as peer:
        await peer.command("set_x", 1, x=0)
        assert await peer.hear() == refusal(1, "never", "not today")
        await peer.command("set_x", 2, x=4)
        assert [await peer.hear(), await peer.hear()] == [refusal(2, "never", "not today"), told(x=-4)]


# ---- what the model changes ----------------------------------------------------------------------------------------------


@in_all_placements
async def test_settings_that_the_model_changes_in_a_step_are_sent_before_its_frame(placement, autojump_clock):
    def grow(model: Any) -> None:
        model.state.words.append("more")  # in place

    options = scripted(step_1=change(x=5, _private=9), step_2=grow, step_3=grow, step_5=change(x=5), step_6=change(x=0))
    async with open_server(Scripted, **options, **placement) as server, server.connect() as client:
        ear = Ear(client)
        frames = await client.take(8)
        assert [frame.data[0, 0, 0] for frame in frames] == list(range(8))
        assert ear.heard == [
            (0.5, {"x": 5}), (0.75, {"words": ["more"]}), (1.0, {"words": ["more", "more"]}), (1.75, {"x": 0})
        ]  # fmt: skip
        assert client.state == DEFAULTS | {"words": ["more", "more"]}


@in_all_placements
async def test_values_are_sent_ten_times_a_second_at_most_and_the_last_one_always(placement, autojump_clock):
    class Counting(Scripted):
        fps = 50

        def inference(self):
            while self.state.x < 30:
                self.state.x += 1
                yield picture(self.state.x)
            while True:
                yield Idle

    async with open_server(Counting, step_cost=0.02, **placement) as server, server.connect() as client:
        ear = Ear(client)
        await client.take(30)
        await trio.sleep(2)
        assert ear.values[0] == {"x": 1}
        assert ear.values[-1] == {"x": 30}
        times = [at for at, _ in ear.heard]
        assert np.diff(times) == pytest.approx([0.1] * (len(times) - 1), abs=1e-5)
        assert len(times) == 7  # in 0.6 s


async def test_a_value_of_the_model_is_never_sent_after_a_newer_one_of_the_client(autojump_clock):
    """The client may then take what comes before its answer as older, and what comes after it as newer."""
    async with open_server(Waiting) as server, server.connect() as client:
        ear = Ear(client)
        await client.command("shuffle")
        server.sessions[0]._channel.deliver(StateValuesChanged({"x": b"1"}))  # it has to wait for its time
        await client.command("set_x", x=2)
        await trio.sleep(1)
        assert ear.heard == [(0, 1), (0, {"seed": 99, "words": ["shuffled"]}), (0, 2)]
        assert client.state["x"] == 2


async def test_a_new_state_object_is_compared_by_its_values(autojump_clock):
    def replace(model: Any) -> None:
        model.state = Settings(x=4, words=["a"])

    async with open_server(Scripted, **scripted(step_1=replace)) as server, server.connect() as client:
        ear = Ear(client)
        await client.take(3)
        assert ear.heard == [(0.5, {"x": 4, "words": ["a"]})]


# ---- what is left out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        math.nan, [1.0, {"deep": math.inf}], np.zeros(2), {1, object()}, "\ud800", "x" * 70_000, list(range(40_000)),
        UploadedFile("a.png", "image/png", 1, b"x"),
    ],
    ids=["nan", "infinity", "array", "object", "surrogate", "text", "list", "file"],
)  # fmt: skip
async def test_values_that_json_cannot_express_or_that_are_too_large_are_left_out(autojump_clock, value):
    options = scripted(step_1=change(anything=value, x=1), step_3=change(anything="again"))
    async with open_server(Scripted, **options) as server, server.connect() as client:
        ear = Ear(client)
        await client.take(3)
        assert ear.heard == [(0.5, {"x": 1})]
        async with server.connect(role="viewer") as viewer:
            left = dict(DEFAULTS)
            del left["anything"]
            assert viewer.state == left | {"x": 1}
            await client.take(2)
            assert ear.heard[1:] == [(1.0, {"anything": "again"})]
            assert client.state == viewer.state == DEFAULTS | {"x": 1, "anything": "again"}


async def test_a_value_of_exactly_the_limit_is_sent(autojump_clock):
    most = "x" * (MOST_BYTES - 2)  # and its quotation marks
    async with open_server(Waiting) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            await client.command("set_anything", anything=most)
            await trio.sleep(1)
            assert viewer.state["anything"] == most
            await client.command("set_anything", anything=most + "x")
            await trio.sleep(1)
            assert client.state["anything"] == most + "x"  # it knows what it has set
            assert viewer.state["anything"] == most
        async with server.connect(role="viewer") as viewer:
            assert "anything" not in viewer.state


async def test_a_large_list_is_sent_when_it_has_become_small_in_place(autojump_clock):
    large = list(range(40_000))
    options = scripted(step_1=change(anything=large), step_3=lambda _model: large.clear())
    async with open_server(Scripted, **options) as server, server.connect() as client:
        ear = Ear(client)
        await client.take(10)
        assert ear.heard == [(1.5, {"anything": []})]  # it is looked at each second


async def test_numpy_numbers_and_nested_values_are_sent(autojump_clock):
    value = {"a": np.float32(0.5), "b": (1, None), 3: "c"}
    async with open_server(Scripted, **scripted(step_0=change(anything=value))) as server, server.connect() as client:
        await client.take(1)
        assert client.state["anything"] == {"a": 0.5, "b": [1, None], "3": "c"}


async def test_a_value_nested_beyond_pythons_recursion_limit_harms_no_session(autojump_clock):
    class Model(Waiting):
        @event
        def set_anything(self, anything: Any):
            self.state.anything = [anything]

    depth = 900
    async with open_server(Model) as server, raw_session(server) as peer:
        await peer.say('{"type": "set_anything", "id": 1, "data": {"anything": ' + "[" * depth + "]" * depth + "}}")
        assert (await peer.hear())["type"] == "reactor.ack"
        message = await peer.hear()
        assert json.dumps(message["data"]["anything"]) == "[" * (depth + 1) + "]" * (depth + 1)


# ---- several clients -----------------------------------------------------------------------------------------------------


@in_all_placements
async def test_viewers_see_what_the_controlling_client_sets(placement, autojump_clock):
    async with open_server(Waiting, **placement) as server, server.connect() as client:
        await client.command("set_x", x=5)
        await trio.sleep(1)
        async with server.connect(role="viewer") as viewer:
            assert viewer.state == DEFAULTS | {"x": 5}
            ear = Ear(viewer)
            await client.command("set_x", x=6)
            await trio.sleep(0.05)
            await client.command("set_x", x=7)
            await client.command("set_amount", amount=2)
            await trio.sleep(0.1)
            assert ear.heard == [(1, {"x": 6}), (1.1, {"x": 7, "amount": 2.0})]
            assert viewer.state == client.state


async def test_each_session_has_its_own_values(autojump_clock):
    class Several(Waiting):
        max_sessions = 2

    async with open_server(Several) as server, server.connect() as one, server.connect() as two:
        ear = Ear(two)
        await one.command("set_limited", limited=50)
        await trio.sleep(1)
        assert (one.state["limited"], two.state["limited"], ear.heard) == (10, 0, [])
    async with open_server(Several) as server:
        async with server.connect() as one:
            await one.command("set_x", x=5)
        async with server.connect() as two:
            assert two.state == DEFAULTS


async def test_for_a_client_that_reads_nothing_one_message_waits_and_it_then_gets_the_newest(autojump_clock):
    class Counting(Scripted):
        fps = 10

        def inference(self):
            while True:
                self.state.x += 1
                yield Idle

    async with open_server(Counting) as server, server.connect(video=["none"]) as client:
        ear = Ear(client)
        await trio.sleep(0.05)
        client.stall()
        await trio.sleep(3)
        attachment = server.sessions[0]._attachments[server.sessions[0].controller]
        assert attachment._texts.count <= 1
        heard = len(ear.heard)
        client.resume()
        await trio.sleep(0.2)
        caught_up = ear.values[heard:]
        assert len(caught_up) <= 5
        assert caught_up[-1]["x"] > 150


# ---- coming back ---------------------------------------------------------------------------------------------------------


async def test_a_resumed_client_has_the_values_in_its_welcome_and_gets_no_old_ones_again(autojump_clock):
    class Slow(Scripted):
        @event
        async def later(self):
            await self.send(Said(what="later"))

    options = scripted(step_0=change(x=1), step_1=change(x=2))
    async with open_server(Slow, resume_window=30, **options) as server, returner(server, "raw") as peer:
        await peer.command("later")
        await trio.sleep(0.6)
        assert [(text["type"], text["n"]) for text in peer.texts] == [
            ("said", 2), ("reactor.ack", 3), ("reactor.state", 4), ("reactor.track", 5), ("reactor.state", 6)
        ]  # fmt: skip
        assert peer.of("reactor.state") == [{"x": 1}, {"x": 2}]
        await peer.vanish()
        await trio.sleep(5)
        seen, peer.last = len(peer.texts), 1
        await peer.connect()
        await trio.testing.wait_all_tasks_blocked()
        assert peer.welcome["resumed"]
        assert (peer.welcome["missed"], peer.welcome["state"]["x"]) == (0, 2)
        again = peer.texts[seen : seen + 5]
        assert [text["type"] for text in again] == ["said", "reactor.ack", "reactor.track", "reactor.track", "reactor.state"]
        assert [text["n"] for text in again] == [2, 3, 5, 7, 8]
        assert again[-1]["data"] == peer.welcome["state"]  # the ack that came again might be taken for the newest


async def test_the_values_alone_are_no_missed_messages(autojump_clock):
    class Chatty(Scripted):
        @event
        async def chat(self, count: int):
            for number in range(count):
                await self.send(Said(what=str(number)))

    options = scripted(**{f"step_{step}": change(x=step) for step in range(1, 6)})
    limits = {"limits": {"resume_messages": 2}}
    async with open_server(Chatty, resume_window=30, **options, **limits) as server, returner(server, "none") as peer:
        await trio.sleep(1.3)
        assert [text["type"] for text in peer.texts] == ["reactor.state"] * 4
        await peer.vanish()
        peer.last = 1
        await peer.connect()
        assert peer.welcome["missed"] == 0
        await peer.command("chat", count=3)
        await trio.sleep(0.3)
        await peer.vanish()
        peer.last = next(text["n"] for text in peer.texts if text["type"] == "said")
        await peer.connect()
        assert peer.welcome["missed"] == 1


async def test_a_client_that_comes_back_by_itself_follows_the_model(autojump_clock):
    options = scripted(step_1=change(x=1), step_5=change(x=5, words=["new"]))
    async with open_server(Scripted, resume_window=30, **options) as server:
        async with server.connect(comes_back=True) as client, server.connect(role="viewer") as viewer:
            state = client.state
            await client.command("set_amount", amount=3)
            await viewer.take(2)
            await client.vanish()
            await viewer.take(6)
            await client.take(8)
            assert state == client.state == viewer.state == DEFAULTS | {"x": 5, "words": ["new"], "amount": 3}
