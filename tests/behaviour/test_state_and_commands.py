"""State, commands, their answers, and the values that a client may not send."""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Literal, Optional

import pytest
import trio
import trio.testing

from reactor_trio.client.session_view import internals
from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface import (
    ClientInfo,
    Idle,
    InputField,
    InputState,
    ModelMessage,
    ReactorPipeline,
    connected,
    event,
)
from reactor_trio.protocol import encode_client_text
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import RawPeer, ack, in_all_placements, picture, raw_peer, raw_session, refusal, shown
from tests.support.models import Picture


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


class State(InputState):
    x: int = 0
    amount: float = InputField(default=1.0, ge=0.5, le=2.0)
    steps: int = InputField(default=4, ge=1, le=50)
    on: bool = False
    prompt: str = InputField(default="a fox", min_length=3, max_length=6)
    words: list[str] = InputField(default=[], min_length=0, max_length=2)
    seed: Optional[int] = 3  # noqa: UP045 - as an author may write it
    size: str = InputField(default="small", choices=["small", "large"])
    zoom: float = InputField(default=1.5, choices=[0.5, 1.5])
    mode: Literal["fast", "fine"] = "fast"
    mood: Mood = Mood.CALM
    anything: Any = None
    _private: int = 3


class Base(ReactorPipeline):
    output: Picture
    state: State

    def load(self, config):
        self.log: list[Any] = []


class Waiting(Base):
    """Never computes: commands are applied as they come."""

    def inference(self):
        while True:
            yield Idle


class Showing(Base):
    """Shows `x`."""

    def inference(self):
        while True:
            self.log.append("step")
            yield picture(self.state.x)

    @event
    def mark(self, what: str = ""):
        self.log.append(what)

    @event(name="refresh", dedupe=True)
    def on_refresh(self, what: str):
        self.log.append(what)

    @event
    async def slow(self, what: str):
        self.log.append(what)
        await trio.sleep(0.5)
        self.log.append(f"{what} done")


# ---- when commands are applied -------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_step_sees_one_value_and_the_next_step_the_new_one(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Base):
        async def inference(self):
            while True:
                before = self.state.x
                await trio.sleep(1)
                self.log.append((before, self.state.x))
                yield picture(self.state.x)

    async with open_server(Model, **placement) as server, server.connect() as client:
        await trio.sleep_until(0.5)
        await client.command("set_x", x=7)
        assert trio.current_time() == 1  # the ack means applied, so it waits for the step to end
        frames = await client.take(3)
        assert server.model.log[:3] == [(0, 0), (7, 7), (7, 7)]
    assert shown(frames) == [0, 7, 7]
    assert [frame.command_id for frame in frames] == [None, 1, 1]


@in_all_placements
async def test_the_ack_names_the_first_step_that_sees_the_command(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Showing, step_cost=1, thread=bool(placement.get("thread"))) as server:
        async with raw_session(server) as peer:
            await trio.sleep_until(0.5)
            await peer.command("set_x", 40, x=7)
            assert await peer.hear() == ack(40, 1)
            await trio.sleep_until(2.5)
            await peer.command("set_x", 41, x=8)
            assert await peer.hear() == ack(41, 3)


@in_all_placements
async def test_commands_of_a_slow_step_are_all_applied_in_order_before_the_next(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Showing, step_cost=1, **placement) as server, server.connect() as client:
        answered: list[str] = []

        async def send(at: float, what: str) -> None:
            await trio.sleep_until(at)
            await client.command("mark", what=what)
            answered.append(what)
            assert trio.current_time() == 1

        async with trio.open_nursery() as nursery:
            for number, what in enumerate("abcde", 1):
                nursery.start_soon(send, number / 8, what)
        await client.take(2)
        assert server.model.log[:7] == ["step", "a", "b", "c", "d", "e", "step"]
    assert sorted(answered) == ["a", "b", "c", "d", "e"]


async def test_the_answers_come_in_the_order_of_application(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1) as server, raw_session(server) as peer:
        await trio.sleep_until(0.5)
        for number, name in [(1, "mark"), (2, "set_x"), (3, "mark"), (4, "set_on"), (5, "mark")]:
            await peer.command(name, number, **{"set_x": {"x": 7}, "set_on": {"on": True}}.get(name, {"what": name}))
        assert [await peer.hear() for _ in range(5)] == [ack(number, 1) for number in range(1, 6)]


@in_all_placements
async def test_an_async_handler_ends_before_the_next_step_begins(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Showing, step_cost=1, **placement) as server, server.connect() as client:
        await trio.sleep_until(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.command("slow", what="a"))
            await trio.sleep_until(0.75)
            nursery.start_soon(lambda: client.command("slow", what="b"))
        assert trio.current_time() == 2
        frames = await client.take(2)
        assert server.model.log[:6] == ["step", "a", "a done", "b", "b done", "step"]
    assert [frame.pts for frame in frames] == [1, 3]


# ---- what is accepted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        pytest.param("amount", 0.5, 0.5, id="t36-lower-bound"),
        pytest.param("amount", 2.0, 2.0, id="t36-upper-bound"),
        pytest.param("steps", 1, 1, id="t36-lower-bound-of-an-int"),
        pytest.param("steps", 50, 50, id="t36-upper-bound-of-an-int"),
        pytest.param("amount", 1, 1.0, id="t39-integer-for-a-float"),
        pytest.param("steps", 7.0, 7, id="t38-whole-number-for-an-int"),
        pytest.param("seed", None, None, id="t41-null-for-an-optional"),
        pytest.param("seed", 5, 5, id="t41-a-value-for-an-optional"),
        pytest.param("prompt", "abc", "abc", id="t44-min-length"),
        pytest.param("prompt", "abcdef", "abcdef", id="t44-max-length"),
        pytest.param("prompt", "äöü", "äöü", id="t44-characters-not-bytes"),
        pytest.param("words", ["a", "b"], ["a", "b"], id="t44-max-items"),
        pytest.param("size", "large", "large", id="t45-a-choice"),
        pytest.param("zoom", 0.5, 0.5, id="t45-a-choice-of-a-float"),
        pytest.param("mode", "fine", "fine", id="t45-a-literal"),
        pytest.param("mood", "wild", Mood.WILD, id="t45-an-enum"),
        pytest.param("anything", {"a": [1, None]}, {"a": [1, None]}, id="any"),
    ],
)
async def test_a_valid_value_is_stored(
    name: str, value: Any, stored: Any, autojump_clock: object
) -> None:
    async with open_server(Waiting) as server, server.connect() as client:
        await client.command(f"set_{name}", **{name: value})
        kept = getattr(server.model.state, name)
    assert kept == stored
    assert type(kept) is type(stored)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param("amount", 2.0000001, "Expected float <= 2.0 - at $.amount", id="t37-above"),
        pytest.param("amount", 0.4999999, "Expected float >= 0.5 - at $.amount", id="t37-below"),
        pytest.param("steps", 51, "Expected int <= 50 - at $.steps", id="t37-above-int"),
        pytest.param("steps", 0, "Expected int >= 1 - at $.steps", id="t37-below-int"),
        pytest.param("amount", "1.0", "Expected float, got str - at $.amount", id="t38-string-for-a-number"),
        pytest.param("amount", True, "Expected float, got bool - at $.amount", id="t38-boolean-for-a-number"),
        pytest.param("steps", True, "Expected int, got bool - at $.steps", id="t38-boolean-for-an-int"),
        pytest.param("steps", 1.5, "Expected int, got float - at $.steps", id="t38-fraction-for-an-int"),
        pytest.param("on", 1, "Expected bool, got int - at $.on", id="t38-number-for-a-boolean"),
        pytest.param("on", "true", "Expected bool, got str - at $.on", id="t38-string-for-a-boolean"),
        pytest.param("prompt", 5, "Expected str, got int - at $.prompt", id="t38-number-for-a-string"),
        pytest.param("words", "ab", "Expected array, got str - at $.words", id="t38-string-for-a-list"),
        pytest.param("words", ["a", 1], "Expected str, got int - at $.words[1]", id="t38-inside-a-list"),
        pytest.param("amount", None, "Expected float, got null - at $.amount", id="t41-null"),
        pytest.param("prompt", None, "Expected str, got null - at $.prompt", id="t41-null-string"),
        pytest.param("size", None, "Expected str, got null - at $.size", id="t41-null-choice"),
        pytest.param("prompt", "ab", "Expected str of length >= 3 - at $.prompt", id="t44-shorter"),
        pytest.param("prompt", "abcdefg", "Expected str of length <= 6 - at $.prompt", id="t44-longer"),
        pytest.param("words", list("abc"), "Expected array of length <= 2 - at $.words", id="t44-items"),
        pytest.param("size", "huge", "Invalid enum value 'huge' - at $.size", id="t45-choice"),
        pytest.param("zoom", 1.0, "Expected one of 0.5, 1.5 - at $.zoom", id="t45-choice-of-a-float"),
        pytest.param("mode", "slow", "Invalid enum value 'slow' - at $.mode", id="t45-literal"),
        pytest.param("mood", "CALM", "Invalid enum value 'CALM' - at $.mood", id="t45-enum"),
    ],
)
async def test_an_invalid_value_changes_nothing_and_names_the_path(
    name: str, value: Any, message: str, autojump_clock: object
) -> None:
    async with open_server(Waiting) as server, server.connect() as client:
        await client.command("set_x", x=7)
        before = vars(server.model.state).copy()
        with pytest.raises(CommandError) as refused:
            await client.command(f"set_{name}", **{name: value})
        assert (refused.value.code, str(refused.value)) == ("invalid_command", message)
        await client.command("set_on", on=True)  # the session goes on
        assert vars(server.model.state) == before | {"on": True}


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
async def test_nan_and_infinities_are_refused(literal: str, autojump_clock: object) -> None:
    async with open_server(Waiting) as server, raw_session(server) as peer:
        await peer.say(f'{{"type": "set_amount", "data": {{"amount": {literal}}}, "id": 9}}')
        assert await peer.hear() == refusal(9, "invalid_command", "NaN and infinities are not JSON - at $.amount")
        await peer.say(f'{{"type": "set_anything", "data": {{"anything": [{literal}]}}, "id": 10}}')
        assert await peer.hear() == refusal(10, "invalid_command", "NaN and infinities are not JSON - at $.anything[0]")
        await peer.command("set_on", 11, on=True)
        assert await peer.hear() == ack(11, 0)
        assert (server.model.state.amount, server.model.state.anything) == (1.0, None)


@pytest.mark.parametrize("name", ["amount", "anything"])
async def test_a_number_too_large_for_a_float_is_refused(name: str, autojump_clock: object) -> None:
    async with open_server(Waiting) as server, raw_session(server) as peer:
        await peer.say(f'{{"type": "set_{name}", "data": {{"{name}": 1e999}}, "id": 9}}')
        answer = await peer.hear()
        assert (answer["type"], answer["id"]) == ("reactor.error", 9)
        assert answer["data"]["code"] == "invalid_command"
        assert (server.model.state.amount, server.model.state.anything) == (1.0, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_the_client_refuses_nan_before_it_is_sent(value: float, autojump_clock: object) -> None:
    async with open_session(Waiting) as client:
        with pytest.raises(CommandError, match=r"Expected a finite number - at \$\.amount"):
            await client.command("set_amount", amount=value)


async def test_a_missing_argument_is_refused_and_resets_nothing(autojump_clock: object) -> None:
    async with open_server(Waiting) as server, server.connect() as client:
        await client.command("set_amount", amount=2.0)
        with pytest.raises(CommandError, match=r"^Object missing required field amount - at \$\.amount$") as refused:
            await client.command("set_amount")
        assert refused.value.code == "invalid_command"
        assert server.model.state.amount == 2.0


async def test_an_unknown_argument_refuses_the_whole_command(autojump_clock: object) -> None:
    async with open_server(Waiting) as server, server.connect() as client:
        told = r"^Object contains unknown field amuont - at \$\.amuont; did you mean amount\?$"
        with pytest.raises(CommandError, match=told) as refused:
            await client.command("set_amount", amount=2.0, amuont=1.0)
        assert refused.value.code == "invalid_command"
        assert server.model.state.amount == 1.0


# ---- declaration ---------------------------------------------------------------------------------------------------------


async def test_a_private_field_has_no_command(autojump_clock: object) -> None:
    async with open_session(Waiting) as client:
        names = [command["name"] for command in client.schema["commands"]]
        assert "set_x" in names
        assert not [name for name in names if "private" in name]
        with pytest.raises(CommandError, match="unknown command 'set__private'"):
            await client.command("set__private", _private=1)


@pytest.mark.parametrize(
    ("annotation", "field", "rule"),
    [
        (int, InputField(default=11, le=10), "Expected int <= 10"),
        (float, InputField(default=-1.0, ge=0), r"Expected float >= 0\.0"),
        (str, InputField(default="", min_length=1), "Expected str of length >= 1"),
        (str, InputField(default="c", choices=["a", "b"]), "Invalid enum value 'c'"),
        (int, InputField(default="a"), "Expected int, got str"),
    ],
)
def test_a_default_that_breaks_its_own_rule_is_an_error_at_definition(
    annotation: type, field: Any, rule: str
) -> None:
    with pytest.raises(TypeError, match=rf"^Broken\.value: the default breaks the field's own rule: {rule}"):
        type("Broken", (InputState,), {"__annotations__": {"value": annotation}, "value": field})


@pytest.mark.parametrize("way", ["set", "in place"])
async def test_a_mutable_default_is_fresh_in_each_session(way: str, autojump_clock: object) -> None:
    class Own(InputState):
        words: list[str] = InputField(default=["a"])
        table: dict[str, int] = {}

    class Model(Base):
        state: Own

        @connected
        def look(self):
            self.log.append((list(self.state.words), dict(self.state.table)))

        @event
        def grow(self):
            self.state.words.append("b")
            self.state.table["b"] = 1

        def inference(self):
            while True:
                yield Idle

    async with open_server(Model) as server:
        for _ in range(2):
            async with server.connect() as client:
                if way == "set":
                    await client.command("set_words", words=["z"])
                    await client.command("set_table", table={"z": 1})
                else:
                    await client.command("grow")
        assert server.model.log == [(["a"], {})] * 2


def test_a_field_without_default_is_an_error_at_definition() -> None:
    with pytest.raises(DeclarationError, match=r"Broken\.value: a state field needs a default"):

        class Broken(InputState):
            value: int

    with pytest.raises(DeclarationError, match=r"Described\.value: a state field needs a default"):

        class Described(InputState):
            value: int = InputField(ge=0)


@in_all_placements
async def test_a_handler_named_like_a_setter_replaces_it(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Waiting):
        @event(name="set_x", description="doubles it")
        def on_x(self, x: int):
            self.state.x = 2 * x
            return "doubled"

    async with open_server(Model, **placement) as server, server.connect() as client:
        assert await client.command("set_x", x=7) == "doubled"
        await client.command("set_on", on=True)
        assert (server.model.state.x, server.model.state.on) == (14, True)
        (entry,) = [command for command in client.schema["commands"] if command["name"] == "set_x"]
        assert entry["description"] == "doubles it"


@in_all_placements
async def test_an_unknown_command_is_refused_and_the_session_goes_on(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_session(Showing, step_cost=0.25, **placement) as client:
        with pytest.raises(CommandError) as refused:
            await client.command("set_nothing", nothing=1)
        assert trio.current_time() == 0  # a refusal found at intake waits for no step
        assert refused.value.code == "invalid_command"
        assert str(refused.value).startswith("unknown command 'set_nothing'; this model takes: mark, refresh, set_amount,")
        assert shown(await client.take(2)) == [0, 0]


TEXTS_THAT_ARE_NO_MESSAGES = [
    "not json",
    "",
    "[]",
    '"set_x"',
    '{"data": {"x": 7}}',
    '{"type": 5, "data": {"x": 7}}',
    '{"type": "set_x", "data": {"x": 7}, "id": "9"}',
    '{"type": "set_x", "data": {"x": 7}, "id": 1.5}',
    '{"type": "set_x", "data": {"x": 7}, "id": true}',
    '{"type": "set_x", "data": {"x": 7}, "id": 99999999999999999999}',
    '{"type": "set_x", "data": {"x": 7}, "id": 9',
    "[" * 5000,
    '{"type": "reactor.shutdown", "data": {}}',
    b"\x93\x00\x00",
]


@pytest.mark.parametrize("message", TEXTS_THAT_ARE_NO_MESSAGES, ids=[repr(m)[:40] for m in TEXTS_THAT_ARE_NO_MESSAGES])
async def test_text_that_is_no_message_is_answered_and_the_session_goes_on(
    message: str | bytes, autojump_clock: object
) -> None:
    async with open_server(Waiting) as server, raw_session(server) as peer:
        await peer.say(message)
        answer = await peer.hear()
        assert (answer["type"], answer["data"]["code"]) == ("reactor.error", "protocol_error")
        assert "id" not in answer
        assert answer["data"]["message"].isprintable()
        await peer.command("set_on", 3, on=True)
        assert await peer.hear() == ack(3, 0)
        assert server.model.state.x == 0


@pytest.mark.parametrize("data", ["[7]", '"x"', "7", "null"])
async def test_arguments_that_are_no_object_are_refused(data: str, autojump_clock: object) -> None:
    async with open_server(Waiting) as server, raw_session(server) as peer:
        await peer.say(f'{{"type": "set_x", "data": {data}, "id": 4}}')
        answer = await peer.hear()
        assert (answer["type"], answer["id"], answer["data"]["code"]) == ("reactor.error", 4, "invalid_command")
        assert answer["data"]["message"].startswith("Expected object, got")


async def test_a_command_without_an_id_is_applied_and_not_acknowledged(autojump_clock: object) -> None:
    async with open_server(Waiting) as server, raw_session(server) as peer:
        await peer.command("set_x", x=7)
        await peer.command("set_x", x="seven")
        await peer.command("set_on", 1, on=True)
        assert await peer.hear() == refusal(None, "invalid_command", "Expected int, got str - at $.x")
        assert await peer.hear() == ack(1, 0)
        assert server.model.state.x == 7


# ---- handlers ------------------------------------------------------------------------------------------------------------


class Progress(ModelMessage):
    done: int
    of: int


class Handlers(Waiting):
    @event
    def fail(self):
        self.log.append("fail")
        raise RuntimeError("the secret text")

    @event
    async def fail_later(self):
        await trio.sleep(0.25)
        raise RuntimeError("the secret text")

    @event
    def refuse(self):
        raise CommandError("no_fuel", "the tank is empty")

    @event
    async def refuse_later(self):
        await trio.sleep(0.25)
        raise CommandError("no_fuel")

    @event
    def answer(self, value: Any):
        return value

    @event
    async def answer_later(self, value: Any):
        await trio.sleep(0.25)
        return value

    @event
    def progress(self):
        return Progress(done=3, of=4)

    @event
    def unsayable(self):
        return object()

    @event
    def who(self, what: str, client: ClientInfo, loud: bool = False):
        self.log.append((what, loud, client.id, client.joined_at))
        return client.id

    @event
    async def whisper(self, sender: ClientInfo):
        await sender.send(Progress(done=1, of=2))


HIDDEN = "the model's handler of {} raised; the terminal of `reactor run` shows the line, and `--debug` tells it here"


@in_all_placements
@pytest.mark.parametrize(
    ("name", "debug", "code", "message"),
    [
        ("fail", False, "internal_error", HIDDEN),
        ("fail", True, "internal_error", "RuntimeError: the secret text"),
        ("fail_later", False, "internal_error", HIDDEN),
        ("refuse", False, "no_fuel", "the tank is empty"),
        ("refuse_later", False, "no_fuel", "no_fuel"),
    ],
)
async def test_a_handler_that_raises_is_answered_and_the_session_goes_on(
    name: str, debug: bool, code: str, message: str, placement: dict[str, Any], autojump_clock: object,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async with open_server(Handlers, debug=debug, **placement) as server, server.connect() as client:
        with pytest.raises(CommandError) as refused:
            await client.command(name)
        assert (refused.value.code, str(refused.value)) == (code, message.format(name))
        await client.command("set_x", x=7)
        assert server.model.state.x == 7
        sid = server.sessions[0].id
        expected = [f"session {sid}: the handler of {name} raised"] if code == "internal_error" else []
        assert [record.getMessage() for record in caplog.records if record.exc_info] == expected


async def test_a_handler_that_raises_names_no_step_that_saw_it(autojump_clock: object) -> None:
    class Model(Showing):
        @event
        def fail(self):
            raise RuntimeError

    async with open_session(Model, step_cost=0.25) as client:
        await client.command("set_x", x=7)
        with pytest.raises(CommandError):
            await client.command("fail")
        frames = await client.take(4)
    assert frames[-1].command_id == 1


@in_all_placements
@pytest.mark.parametrize("name", ["answer", "answer_later"])
@pytest.mark.parametrize("value", [None, 5, "text", [1, {"a": None}], {"k": 1.5}])
async def test_the_ack_carries_what_the_handler_returns(
    name: str, value: Any, placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_session(Handlers, **placement) as client:
        assert await client.command(name, value=value) == value


async def test_the_ack_carries_a_model_message_as_its_fields(autojump_clock: object) -> None:
    async with open_session(Handlers) as client:
        assert await client.command("progress") == {"done": 3, "of": 4}


async def test_a_reply_that_cannot_be_json_is_the_handler_s_fault(autojump_clock: object) -> None:
    async with open_session(Handlers, debug=True) as client:
        with pytest.raises(CommandError, match=r"TypeError: unsayable: cannot be sent as JSON") as refused:
            await client.command("unsayable")
        assert refused.value.code == "internal_error"
        assert await client.command("answer", value=1) == 1


# ---- what supersedes what ------------------------------------------------------------------------------------------------


async def send_during_the_first_step(peer: RawPeer, *commands: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Send the commands at 0.5 s, ids from 1, and hear one answer to each."""
    await trio.sleep_until(0.5)
    for number, (name, arguments) in enumerate(commands, 1):
        await peer.command(name, number, **arguments)
    return [await peer.hear() for _ in commands]


@pytest.mark.parametrize("thread", [False, True])
async def test_of_a_dedupe_event_the_newest_runs_at_the_place_of_the_first(
    thread: bool, autojump_clock: object
) -> None:
    async with open_server(Showing, step_cost=1, thread=thread) as server, raw_session(server) as peer:
        answers = await send_during_the_first_step(
            peer,
            ("refresh", {"what": "ref1"}), ("mark", {"what": "other1"}), ("refresh", {"what": "ref2"}),
            ("mark", {"what": "other2"}), ("refresh", {"what": "ref3"}),
        )  # fmt: skip
        await trio.sleep_until(1.5)
        assert server.model.log == ["step", "ref3", "other1", "other2", "step"]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4, 5]  # each is answered once
    assert all(answer["type"] == "reactor.ack" for answer in answers)
    assert [answer["id"] for answer in answers if answer["id"] in (2, 4)] == [2, 4]


class Watched(InputState):
    """Notes each value that it is given after its making."""

    x: int = 0
    y: int = 0
    given: ClassVar[list[tuple[str, int]]] = []

    def __setattr__(self, name: str, value: int) -> None:
        if name in vars(self):
            self.given.append((name, value))
        super().__setattr__(name, value)


@pytest.mark.parametrize("thread", [False, True])
async def test_consecutive_set_commands_of_one_field_share_a_place_and_are_acked_together(
    thread: bool, autojump_clock: object
) -> None:
    class Model(Base):
        state: Watched

        def inference(self):
            while True:
                yield picture(self.state.x)

    Watched.given.clear()
    async with open_server(Model, step_cost=1, thread=thread) as server, raw_session(server) as peer:
        answers = await send_during_the_first_step(
            peer,
            ("set_x", {"x": 1}), ("set_x", {"x": 2}), ("set_y", {"y": 3}), ("set_x", {"x": 4}), ("set_x", {"x": 5}),
        )  # fmt: skip
    assert Watched.given == [("x", 2), ("y", 3), ("x", 5)]
    assert answers == [ack(number, 1) for number in (1, 2, 3, 4, 5)]


async def test_a_plain_event_is_never_merged(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1) as server, raw_session(server) as peer:
        await send_during_the_first_step(peer, ("mark", {"what": "a"}), ("mark", {"what": "a"}))
        await trio.sleep_until(1.5)
        assert server.model.log == ["step", "a", "a", "step"]


async def test_a_command_left_over_never_reaches_the_next_session(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.5)
            for number, name in enumerate(["mark", "refresh", "slow"], 1):
                await internals(client).connection.transport.send(encode_client_text(name, {"what": name}, number))
            await internals(client).connection.transport.send(encode_client_text("set_x", {"x": 7}, 4))
            await client.vanish()
        async with server.connect() as client:
            assert trio.current_time() == 1
            frames = await client.take(2)
            assert shown(frames) == [0, 0]
            assert [frame.command_id for frame in frames] == [None, None]
            assert set(server.model.log) == {"step"}


# ---- limits --------------------------------------------------------------------------------------------------------------


async def test_commands_above_the_rate_are_refused_as_busy(autojump_clock: object) -> None:
    async with open_server(Waiting, limits={"commands_per_second": 3}) as server, raw_session(server) as peer:
        for number in range(5):
            await peer.command("set_x", number, x=number)
        answers = [await peer.hear() for _ in range(5)]
        busy = [refusal(number, "busy", "more than 3 commands a second") for number in (3, 4)]
        assert [answer for answer in answers if answer["type"] == "reactor.error"] == busy
        assert [answer["id"] for answer in answers if answer["type"] == "reactor.ack"] == [0, 1, 2]
        assert server.model.state.x == 2
        await trio.sleep(1)  # the allowance has come back
        await peer.command("set_x", 5, x=5)
        assert await peer.hear() == ack(5, 0)


async def test_too_many_pending_commands_are_refused_as_busy(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1, limits={"pending_commands": 2}) as server, raw_session(server) as peer:
        answers = await send_during_the_first_step(
            peer,
            ("mark", {"what": "a"}), ("set_x", {"x": 1}), ("set_x", {"x": 2}),  # two places
            ("mark", {"what": "b"}), ("set_on", {"on": True}),
        )  # fmt: skip
        message = "2 commands are pending; wait for their answers"
        assert answers == [
            refusal(4, "busy", message), refusal(5, "busy", message), ack(1, 1), ack(2, 1), ack(3, 1)
        ]  # fmt: skip
        await trio.sleep_until(1.5)
        assert server.model.log == ["step", "a", "step"]
        await peer.command("mark", 6, what="c")
        assert await peer.hear() == ack(6, 2)


@in_all_placements
async def test_a_dedupe_event_at_60_hz_takes_one_place_however_long_the_step(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    server_options = {"step_cost": 5, "stuck_after": 60, "limits": {"pending_commands": 2}} | placement
    async with open_server(Showing, **server_options) as server, raw_session(server) as peer:
        await trio.sleep_until(0.5)
        for number in range(1, 121):
            await peer.command("refresh", number, what=str(number))
            if number == 60:
                await peer.command("mark", 0, what="other")
            await trio.sleep(1 / 60)
        await peer.command("mark", 121, what="one place too many")
        answers = [await peer.hear() for _ in range(122)]
        assert answers[0] == refusal(121, "busy", "2 commands are pending; wait for their answers")
        assert sorted(answer["id"] for answer in answers[1:]) == list(range(121))
        assert {answer["type"] for answer in answers[1:]} == {"reactor.ack"}
        assert server.model.log[:3] == ["step", "120", "other"]
        await peer.command("mark", 122, what="the places are free again")
        assert (await peer.hear())["type"] == "reactor.ack"


async def test_a_client_that_leaves_too_many_unanswered_is_closed_as_flood(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1, limits={"unanswered_commands": 3}) as server, raw_session(server) as peer:
        await trio.sleep_until(0.5)
        for number in range(4):
            await peer.command("set_x", number, x=number)
        assert await peer.hear() == {"type": "reactor.bye", "data": {"reason": "flood"}}
        assert trio.current_time() == 0.5
        await server.sessions[0].ended.wait()
        assert server.sessions[0].reason == "flood"


async def test_a_command_of_a_client_that_still_waits_is_not_admitted(autojump_clock: object) -> None:
    async with open_server(Showing, step_cost=1) as server, server.connect() as first:
        await first.take(1)
        async with raw_peer(server) as second:
            place = {"position": 1, "total": 1, "wait": None, "heartbeat": 10}
            assert await second.hear() == {"type": "reactor.queued", "data": place}
            await second.command("set_x", 1, x=9)
            waits = "this client waits in the queue; commands are taken after the welcome"
            assert await second.hear() == refusal(1, "not_admitted", waits)
            assert shown(await first.take(2)) == [0, 0]
            await first.vanish()
            assert (await second.hear())["type"] == "reactor.welcome"
            assert server.model.state.x == 0  # it was not kept for later either


# ---- hooks and clients ---------------------------------------------------------------------------------------------------


def test_two_connected_methods_are_an_error_at_definition() -> None:
    with pytest.raises(TypeError, match="two methods marked @connected: first and second"):

        class Model(ReactorPipeline):
            state: State

            @connected
            def first(self): ...

            @connected
            def second(self): ...


async def test_the_nearest_of_inherited_connected_methods_runs(autojump_clock: object) -> None:
    class Parent(Waiting):
        @connected
        def greet(self):
            self.log.append("parent")

    class Child(Parent):
        @connected
        def welcome(self):
            self.log.append("child")

    async with open_server(Child) as server, server.connect():
        await trio.sleep(0.0625)
        assert server.model.log == ["child"]


@pytest.mark.parametrize("name", ["connected", "disconnected", "file_uploaded", "reactor.ack"])
def test_an_event_with_a_name_of_the_runtime_is_an_error_at_declaration(name: str) -> None:
    with pytest.raises(ValueError, match=f"the name '{name}' is the runtime's own"):

        @event(name=name)
        def handler(self): ...


def test_a_bare_event_on_a_method_with_a_name_of_the_runtime_is_an_error() -> None:
    with pytest.raises(ValueError, match="the name 'connected' is the runtime's own"):

        @event
        def connected(self): ...


@in_all_placements
async def test_a_client_info_parameter_is_no_argument_and_gets_the_sender(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Handlers, **placement) as server:
        await trio.sleep(1)
        async with server.connect() as client:
            (entry,) = [command for command in client.schema["commands"] if command["name"] == "who"]
            assert sorted(entry["schema"]["properties"]) == ["loud", "what"]
            assert entry["schema"]["required"] == ["what"]
            first = await client.command("who", what="a", loud=True)
            with pytest.raises(CommandError, match="Object contains unknown field client"):
                await client.command("who", what="a", client=1)
            await client.command("whisper")
            message = await client.next_message()
            assert (message.type, message.data) == ("progress", {"done": 1, "of": 2})
        await trio.sleep(1)
        async with server.connect() as client:
            second = await client.command("who", what="b")
        assert first != second
        assert server.model.log == [("a", True, first, 1), ("b", False, second, 2)]
