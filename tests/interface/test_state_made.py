"""Creation of a state: factories for each session, an instance that is not served, a state without annotation."""

from __future__ import annotations

import collections
import copy
import logging
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from reactor_trio.errors import DeclarationError
from reactor_trio.interface import InputField, InputState, ModelMessage, Output, ReactorModel, ReactorPipeline, Video, event
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.testing import PipelineExecutor, open_server, open_session


class Picture(Output):
    main: Video


class Counted(ModelMessage):
    number: int


def picture(level):
    return Picture(main=np.full((2, 2, 3), level, np.uint8))


# ---- factories --------------------------------------------------------------------------------------------------------


class Numbers:
    """Counts its instances."""

    made = 0

    def __init__(self):
        type(self).made += 1
        self.number = self.made


def test_a_private_factory_runs_for_each_state_and_not_for_the_class():
    class State(InputState):
        level: int = 1
        _numbers: Numbers = field(default_factory=Numbers)

    before = Numbers.made
    assert [State()._numbers.number, State()._numbers.number] == [before + 1, before + 2]
    assert list(State.__reactor_arguments__) == ["level"]


@pytest.mark.parametrize("author_writes_it", [False, True])
def test_a_factory_may_make_a_value_that_cannot_be_a_default(author_writes_it):
    class State(InputState):
        _deque: collections.deque[int] = field(default_factory=lambda: collections.deque(maxlen=3))
        _array: np.ndarray = field(default_factory=lambda: np.zeros(2))
        _rng: np.random.Generator = field(default_factory=np.random.default_rng, repr=False)

    if author_writes_it:
        State = dataclass(State)
    one, other = State(), State()
    assert (one._deque, one._array.shape) == (collections.deque(), (2,))
    assert one._deque is not other._deque
    assert one._array is not other._array
    assert one._rng is not other._rng
    assert one._rng.random() != other._rng.random()
    assert "_rng" not in repr(one)


def test_a_mutable_default_of_any_type_is_copied():
    class State(InputState):
        _deque: collections.deque[int] = collections.deque([1])
        _array: np.ndarray = np.zeros(2)
        _told: collections.deque[int] = InputField(default=collections.deque())

    one, other = State(), State()
    one._deque.append(2)
    one._array += 1
    assert (list(other._deque), list(other._array), State()._told) == ([1], [0, 0], collections.deque())


def test_a_public_factory_runs_for_each_state_and_once_for_the_schema():
    made = []

    class State(InputState):
        items: list[int] = field(default_factory=lambda: made.append(0) or [len(made)])

    assert made == [0]
    assert State.__reactor_arguments__["items"].schema()["properties"]["items"]["default"] == [1]
    assert (State().items, State().items) == ([2], [3])


def test_the_result_of_a_public_factory_must_fit_the_field():
    with pytest.raises(DeclarationError, match=r"State.x: the default deque\(\[\]\) cannot be JSON|State.x: .*deque"):

        class State(InputState):
            x: int = field(default_factory=collections.deque)


def test_a_subclass_keeps_the_factories_of_its_base():
    class Base(InputState):
        _deque: collections.deque[int] = field(default_factory=collections.deque)

    class State(Base):
        level: int = 1

    assert State()._deque is not State()._deque


async def test_each_session_runs_the_factory(autojump_clock):
    class State(InputState):
        _numbers: Numbers = field(default_factory=Numbers)

    class Model(ReactorPipeline):
        state: State

        def inference(self):
            while True:
                yield picture(self.state._numbers.number)

    Numbers.made = 0
    async with open_server(Model, step_cost=0.25) as server:
        for number in (1, 2):
            async with server.connect() as client:
                (frame,) = await client.take(1)
                assert frame.data[0, 0, 0] == number


# ---- an exception in a factory ----------------------------------------------------------------------------------------


class Fragile(InputState):
    level: int = 3

    broken = False

    def __post_init__(self):
        if Fragile.broken:
            raise ValueError("no such weights")


class FragileModel(ReactorPipeline):
    state: Fragile

    def inference(self):
        while True:
            yield picture(self.state.level)


@pytest.mark.parametrize("options", [{}, {"max_sessions": 2}, {"isolation": "process"}], ids=["one", "several", "isolated"])
async def test_an_exception_in_a_factory_ends_the_session_with_model_error(autojump_clock, caplog, monkeypatch, options):
    async with open_server(FragileModel, step_cost=0.25, **options) as server:
        monkeypatch.setattr(Fragile, "broken", True)
        async with server.connect() as client:
            with pytest.raises(Exception, match=r"^no such weights$"):
                await client.take(1)
            assert client.ended == "model_error"
        monkeypatch.setattr(Fragile, "broken", False)
        async with server.connect() as client:
            (frame,) = await client.take(1)
            assert frame.data[0, 0, 0] == 3
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert told.exc_info is not None
    assert "the model raised" in told.getMessage()


# ---- an instance that is not served ----------------------------------------------------------------------------------


class Look(InputState):
    level: int = 7


class Unserved(ReactorPipeline):
    state: Look

    def load(self, config):
        self.factor = config.get("factor", 1)

    @event
    def brighten(self, by: int = InputField(default=2)):
        self.state.level += by

    def inference(self):
        while not self.cancelled():
            self.check_cancelled()
            yield picture(self.state.level * self.factor)


class Talking(ReactorPipeline):
    state: Look

    async def inference(self):
        await self.send(Counted(number=1))
        yield picture(self.state.level)


def level(output):
    return output.main[0, 0, 0]


def test_a_state_is_assigned_and_inference_stepped_by_hand():
    app = Unserved()
    app.load({"factor": 2})
    app.state = Look(level=5)
    steps = app.inference()
    assert level(next(steps)) == 10
    app.brighten()
    app.state.level += 1
    assert level(next(steps)) == 16
    app.state = Look(level=1)
    assert level(next(steps)) == 2
    steps.close()


def test_without_an_assignment_each_instance_has_its_own_defaults():
    one, other = Unserved(), Unserved()
    one.load({})
    one.state.level = 9
    assert (level(next(one.inference())), other.state.level) == (9, 7)
    assert copy.copy(one).state.level == 9


def test_an_async_inference_is_stepped_by_hand_under_any_loop():
    app = Talking()
    stepping = app.inference().__anext__()
    with pytest.raises(StopIteration) as made:
        stepping.send(None)
    assert level(made.value.value) == 7


def test_send_checks_its_message_without_a_runtime():
    sending = Talking().send("hello")
    with pytest.raises(TypeError, match="send\\(\\) takes a ModelMessage, not str"):
        sending.send(None)


def test_a_run_loop_keeps_a_state_of_its_own():
    class Loop(ReactorModel):
        @event
        def brighten(self):
            self.state.level += 1

    app = Loop()
    app.state = Look(level=1)
    app.brighten()
    assert app.state.level == 2


async def test_a_state_assigned_in_a_session_belongs_to_that_session(autojump_clock):
    class Model(ReactorPipeline):
        state: Look

        def load(self, config):
            self.state = Look(level=99)  # an instance without a session

        @event
        def restart(self, level: int):
            self.state = Look(level=level)

        def inference(self):
            while True:
                yield picture(self.state.level)

    for options in ({}, {"max_sessions": 2}, {"isolation": "process"}):
        async with open_server(Model, step_cost=0.25, **options) as server:
            async with server.connect() as client:
                assert (await client.take(1))[0].data[0, 0, 0] == 7
                await client.command("restart", level=20)
                assert (await client.take(4))[-1].data[0, 0, 0] == 20
                await client.command("set_level", level=30)
                assert (await client.take(4))[-1].data[0, 0, 0] == 30
            async with server.connect() as client:
                assert (await client.take(1))[0].data[0, 0, 0] == 7


def test_the_executor_accepts_a_state_assigned_in_a_session():
    class Model(Unserved):
        @event
        def restart(self, level: int):
            self.state = Look(level=level)

    with PipelineExecutor(Model) as executor:
        executor.connect()
        executor.send_event("restart", level=20)
        executor.send_event("set_level", level=21)
        assert level(next(executor).output) == 21


# ---- a state that is not annotated ------------------------------------------------------------------------------------


class Forgetful(ReactorPipeline):
    def inference(self):
        while True:
            yield picture(self.state.level)


async def test_reading_a_state_without_annotation_raises_an_error_with_the_remedy(autojump_clock):
    says = r"(?m)^Forgetful has no state: annotate it in the class, `state: \w+`, with a subclass of InputState$"
    with pytest.raises(AttributeError, match=says):
        next(Forgetful().inference())
    async with open_session(Forgetful) as client:
        with pytest.raises(AttributeError, match=says):
            await client.take(1)


def test_a_pipeline_without_annotation_may_keep_a_state_of_its_own():
    app = Forgetful()
    assert not hasattr(app, "state")
    app.state = Look(level=4)
    assert level(next(app.inference())) == 4
    assert declaration_of(Forgetful).state is None


async def test_a_state_without_annotation_is_a_plain_attribute(autojump_clock):
    class Model(ReactorPipeline):
        def load(self, config):
            self.state = Look(level=4)

        def inference(self):
            while True:
                yield picture(self.state.level)

    async with open_server(Model, step_cost=0.25) as server, server.connect() as client:
        assert (await client.take(1))[0].data[0, 0, 0] == 4


# ---- names that are no fields ------------------------------------------------------------------------------------------


def test_a_name_that_is_almost_a_field_says_which():
    class Almost(InputState):
        speed: float = 1.0

    with pytest.raises(AttributeError, match=r"Almost has no field sped; did you mean speed\?$"):
        _ = Almost().sped  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"Almost has no field colour$"):
        _ = Almost().colour  # type: ignore[attr-defined]
    assert getattr(Almost(), "sped", None) is None
    assert copy.deepcopy(Almost(speed=2.0)) == Almost(speed=2.0)


@pytest.mark.parametrize("options", [{}, {"isolation": "process"}], ids=["thread", "process"])
async def test_a_handler_that_assigns_almost_a_field_is_told_once(autojump_clock, caplog, options):
    class Told(InputState):
        speed: float = 1.0
        _private: int = 0

    Told.__qualname__ = name = f"Told_{options.get('isolation')}"  # once in a process, which both ways share here

    class Assigning(ReactorPipeline):
        state: Told
        output: Picture

        @event
        def faster(self):
            self.state.sped = self.state.count = 2  # type: ignore[attr-defined]
            self.state._privat = self.state.speed = 3  # type: ignore[attr-defined]

        def inference(self):
            while True:
                yield picture(1)

    async with open_server(Assigning, **options) as server, server.connect() as client:
        await client.command("faster")
        await client.command("faster")
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    line = Assigning.faster.__code__.co_firstlineno + 2
    assert told == (
        f"{name} has no field sped, so no client sees it; did you mean speed? (at {__file__}:{line}) "
        "(docs/reference/errors.md#state)"
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("speed", 9, "9, outside its le=4"), ("speed", -0.5, "-0.5, outside its ge=0"),
        ("words", "a" * 6, "'aaaaaa', outside its max_length=5"),
        ("words", "", "'', outside its min_length=1"), ("style", "ink", "'ink', outside its choices=['oil', 'pen']"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"isolation": "process"}], ids=["thread", "process"])
async def test_a_handler_that_assigns_a_value_outside_the_limits_is_told_once(
    autojump_clock, caplog, options, name, value, said
):
    class Bounded(InputState):
        speed: float = InputField(1.0, ge=0, le=4)
        words: str = InputField("wolf", min_length=1, max_length=5)
        style: str = InputField("oil", choices=["oil", "pen"])

    class Assigning(ReactorPipeline):
        state: Bounded
        output: Picture

        @event
        def wrong(self):
            setattr(self.state, name, value)

        @event
        def read(self) -> bool:
            return bool(getattr(self.state, name) == value)

        @event
        def right(self):
            self.state.speed, self.state.words, self.state.style = 4, "wolfs", "pen"

        def inference(self):
            while True:
                yield picture(1)

    Bounded.__qualname__ = f"Bounded_{name}_{value}_{options.get('isolation')}"  # it is said once in a process
    async with open_server(Assigning, **options) as server, server.connect() as client:
        await client.command("right")
        await client.command("wrong")
        await client.command("wrong")
        assert await client.command("read") is True
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    line = Assigning.wrong.__code__.co_firstlineno + 2
    assert told == (
        f"{Bounded.__qualname__}.{name} is set to {said}: it is kept, but no client can set it. Bound the value, or change "
        f"the limit (at {__file__}:{line}) (docs/reference/errors.md#state)"
    )


def test_a_state_that_is_made_with_a_value_outside_the_limits_names_the_line(caplog):
    class Made(InputState):
        speed: float = InputField(1.0, le=4)

    assert Made(speed=9).speed == 9
    line = sys._getframe().f_lineno - 1
    assert "is set to 9, outside its le=4: it is kept" in caplog.text
    assert f"(at {__file__}:{line})" in caplog.text
