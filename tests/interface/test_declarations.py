"""Declarations of states, events, messages and tracks, and the mistakes that raise when the class is created."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any, Literal, Optional

import pytest

from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface import (
    ClientInfo,
    Idle,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    event,
)
from reactor_trio.interface.declaration import declaration_of


class Mode(enum.Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Everything(InputState):
    f: float = InputField(default=1.0, ge=0.0, le=2.0, description="A float")
    i: int = 3
    s: str = InputField(default="ab", min_length=1, max_length=3)
    b: bool = False
    literal: Literal["x", "y"] = "x"
    optional: Optional[int] = InputField(default=None, ge=0)  # noqa: UP045 - authors write it
    items: list[int] = InputField(default=[1], max_length=2)
    table: dict[str, float] = {}
    mode: Mode = Mode.DAY
    point: Point = Point(1.0)
    anything: Any = None
    chosen: str = InputField(default="a", choices=["a", "b"])
    rate: float = InputField(default=0.5, choices=[0.5, 1.5])
    _private: dict[str, int] = {}


class Model(ReactorPipeline):
    state: Everything

    @event
    def jump(self, height: float = InputField(default=1.0, ge=0), client: ClientInfo | None = None) -> None:
        """Jump up."""

    @event(name="place", description="Put it there", dedupe=True)
    async def put(self, *, x: int, y: int = 2) -> None: ...

    @event("set_b")
    def own_set_b(self, b: bool) -> None: ...

    def inference(self) -> Any:
        yield Idle


def set_(name: str, json: str) -> Any:
    return declaration_of(Model).command(f"set_{name}").arguments.decode(f'{{"{name}": {json}}}'.encode())[name]


@pytest.mark.parametrize(
    ("name", "json", "value"),
    [
        ("f", "3e-1", 0.3), ("f", "0", 0.0), ("f", "2", 2.0), ("i", "1.0", 1), ("i", "-7", -7), ("s", '"é"', "é"),
        ("s", '"abc"', "abc"), ("b", "true", True), ("literal", '"y"', "y"), ("optional", "null", None),
        ("optional", "0", 0), ("items", "[1, 2]", [1, 2]), ("table", '{"a": 1}', {"a": 1.0}),
        ("mode", '"night"', Mode.NIGHT),
        ("point", '{"x": 2}', Point(2.0)), ("anything", '[1, {"a": null}]', [1, {"a": None}]), ("chosen", '"b"', "b"),
        ("rate", "1.5", 1.5),
    ],
)  # fmt: skip
def test_valid_values_are_accepted(name: str, json: str, value: object) -> None:
    taken = set_(name, json)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("name", "json", "message"),
    [
        ("f", "2.5", "Expected float <= 2.0 - at $.f"), ("f", "-0.1", "Expected float >= 0.0 - at $.f"),
        ("f", '"3"', "Expected float, got str - at $.f"), ("f", "true", "Expected float, got bool - at $.f"),
        ("f", "null", "Expected float, got null - at $.f"), ("f", "1e999", "Number out of range - at $.f"),
        ("i", "1.5", "Expected int, got float - at $.i"), ("i", "true", "Expected int, got bool - at $.i"),
        ("s", '""', "Expected str of length >= 1 - at $.s"), ("s", '"abcd"', "Expected str of length <= 3 - at $.s"),
        ("b", "1", "Expected bool, got int - at $.b"), ("literal", '"z"', "Invalid enum value 'z' - at $.literal"),
        ("optional", "-1", "Expected int >= 0 - at $.optional"),
        ("items", "[1, 2, 3]", "Expected array of length <= 2 - at $.items"),
        ("items", '["a"]', "Expected int, got str - at $.items[0]"),
        ("mode", '"dusk"', "Invalid enum value 'dusk' - at $.mode"),
        ("point", "{}", "Object missing required field x - at $.point.x"),
        ("chosen", '"c"', "Invalid enum value 'c' - at $.chosen"), ("rate", "1.0", "Expected one of 0.5, 1.5 - at $.rate"),
    ],
)  # fmt: skip
def test_invalid_values_are_refused_with_their_path(name: str, json: str, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        set_(name, json)
    assert (refused.value.code, str(refused.value)) == ("invalid_command", message)


@pytest.mark.parametrize(
    ("command", "data", "message"),
    [
        ("set_f", b"{}", "Object missing required field f - at $.f"),
        ("set_f", b'{"f": 1, "g": 2}', "Object contains unknown field g - at $.g"),
        ("set_f", b"[1]", "Expected object, got array"),
        ("place", b'{"y": 1}', "Object missing required field x - at $.x"),
        ("set_f", b'{"ff": 1}', "Object contains unknown field ff - at $.ff; did you mean f?"),
        ("jump", b'{"client": 1}', "Object contains unknown field client - at $.client"),
        ("set_f", b'{"f": 1, "` - at `\\n": 2}', "Object contains unknown field  - at \n - at $. - at \n"),
        ("set__private", b'{"_private": {}}', "unknown command 'set__private'; this model takes: "),
    ],
)
def test_missing_extra_and_unknown_arguments_are_named(command: str, data: bytes, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        declaration_of(Model).command(command).arguments.decode(data)
    assert str(refused.value).startswith(message)


def test_a_long_unknown_argument_that_looks_like_an_error_text_costs_no_more_than_another() -> None:
    """A search that began again at each of these took a minute."""
    with pytest.raises(CommandError) as refused:
        declaration_of(Model).command("set_f").arguments.decode(b'{"f": 1, "' + b"` - at `" * 30_000 + b'\\n": 2}')
    assert str(refused.value).endswith(" - at \n")


def test_events_with_and_without_options_and_in_place_of_a_generated_command() -> None:
    commands = declaration_of(Model).commands
    assert commands["jump"].description == "Jump up."
    assert (commands["place"].description, commands["place"].sharing) == ("Put it there", "anywhere")
    assert commands["set_b"].handler is not None
    assert commands["jump"].handler is not None
    assert commands["jump"].handler.client_parameter == "client"
    assert declaration_of(Model).command("jump").arguments.decode(b"{}") == {"height": 1.0}
    assert declaration_of(Model).command("place").arguments.decode(b'{"x": 1}') == {"x": 1, "y": 2}


def test_the_schema_has_defaults_and_bounds_but_no_private_fields() -> None:
    schema = declaration_of(Model).schema()
    by_name = {command["name"]: command for command in schema["commands"]}
    f = by_name["set_f"]["schema"]["properties"]["f"]
    assert f == {"type": "number", "default": 1.0, "minimum": 0.0, "maximum": 2.0, "description": "A float"}
    assert by_name["set_f"]["schema"]["required"] == ["f"]
    assert by_name["set_chosen"]["schema"]["properties"]["chosen"]["enum"] == ["a", "b"]
    assert by_name["set_rate"]["schema"]["properties"]["rate"]["enum"] == [0.5, 1.5]
    assert "set__private" not in by_name
    assert "client" not in by_name["jump"]["schema"]["properties"]


def test_each_session_has_its_own_copy_of_a_mutable_default() -> None:
    first, second = Everything(), Everything()
    first.items.append(9)
    first.table["a"] = 1.0
    first.point.x = 5.0
    first._private["k"] = 1
    assert (second.items, second.table, second.point.x, second._private) == ([1], {}, 1.0, {})


def test_the_dataclass_decorator_changes_nothing() -> None:
    @dataclass
    class Decorated(InputState):
        tags: list[str] = InputField(default=["a"])  # noqa: RUF009 - what authors write
        level: float = InputField(default=1.0, ge=0)

    assert Decorated() == Decorated(tags=["a"], level=1.0)
    assert [field.name for field in dataclasses.fields(Decorated)] == ["tags", "level"]


def test_state_fields_are_inherited() -> None:
    class More(Everything):
        extra: int = 1

    class Inheriting(ReactorPipeline):
        state: More

        def inference(self) -> Any:
            yield Idle

    assert {"set_f", "set_extra"} <= set(declaration_of(Inheriting).commands)


def no_default() -> None:
    class State(InputState):
        x: int


def breaks_its_own_bounds() -> None:
    class State(InputState):
        x: float = InputField(default=5.0, le=2.0)


def not_one_of_its_choices() -> None:
    class State(InputState):
        x: float = InputField(default=5.0, choices=[1.0])


def a_type_no_client_can_set() -> None:
    class State(InputState):
        x: threading_lock = None  # noqa: F821 - the mistake


def a_type_of_the_author() -> None:
    class Opaque: ...

    class State(InputState):
        x: Opaque = InputField(default=None)


def two_connected() -> None:
    class M(ReactorModel):
        @connected
        def a(self) -> None: ...

        @connected
        def b(self) -> None: ...


def a_reserved_event() -> None:
    class M(ReactorModel):
        @event(name="connected")
        def a(self) -> None: ...


def an_event_with_a_runtime_name() -> None:
    class M(ReactorModel):
        @event(name="reactor.ack")
        def a(self) -> None: ...


def one_event_twice() -> None:
    class M(ReactorModel):
        @event(name="x")
        def a(self) -> None: ...

        @event(name="x")
        def b(self) -> None: ...


def an_event_with_star_arguments() -> None:
    class M(ReactorModel):
        @event
        def a(self, *args: int) -> None: ...


def a_track_of_another_kind() -> None:
    class Out(Output):
        x: int


def a_state_that_is_not_an_input_state() -> None:
    class M(ReactorPipeline):
        state: int

        def inference(self) -> Any:
            yield Idle


def a_mutable_message_default() -> None:
    class M(ModelMessage):
        x: list[int] = MessageField(default=[])


def an_event_with_keyword_arguments() -> None:
    class M(ReactorModel):
        @event
        def a(self, **more: int) -> None: ...


def an_event_with_positional_arguments() -> None:
    class M(ReactorModel):
        @event
        def a(self, x: int, /) -> None: ...


def an_event_without_self() -> None:
    class M(ReactorModel):
        @event
        def a() -> None: ...  # type: ignore[misc]


def an_event_that_yields() -> None:
    class M(ReactorModel):
        @event
        def a(self) -> Any:
            yield 1


def an_event_on_a_static_method() -> None:
    class M(ReactorModel):
        @staticmethod
        @event
        def a() -> None: ...


def an_event_of_a_type_no_client_can_send() -> None:
    class M(ReactorModel):
        @event
        def a(self, x: set[complex]) -> None: ...


def an_event_whose_default_breaks_its_bounds() -> None:
    class M(ReactorModel):
        @event
        def a(self, x: int = InputField(default=3, le=2)) -> None: ...


def an_event_that_hides_the_runtime() -> None:
    class M(ReactorModel):
        @event
        def send(self, x: int) -> None: ...


def an_event_without_a_name() -> None:
    class M(ReactorModel):
        @event(name="")
        def a(self) -> None: ...


def a_hook_with_an_argument() -> None:
    class M(ReactorModel):
        @connected
        def a(self, who: str) -> None: ...


def a_state_of_a_run_loop() -> None:
    class M(ReactorModel):
        state: Everything


def an_app_under_its_alias() -> None:
    class M(ReactorModel):  # in Reactor 3.10 the name is an alias of ReactorApp
        state: Everything | None

        def generate(self, input: Any) -> Any:  # noqa: A002
            return None


def an_app_without_a_state() -> None:
    class M(ReactorModel):
        async def process_input(self) -> Any: ...

        def generate(self, input: Any) -> Any: ...  # noqa: A002


def a_state_that_is_not_annotated() -> None:
    class M(ReactorPipeline):
        state = Everything

        def inference(self) -> Any:
            yield Idle


def an_inference_of_a_run_loop() -> None:
    class M(ReactorModel):
        def inference(self) -> Any:
            yield Idle


def a_run_of_a_pipeline() -> None:
    class M(ReactorPipeline):
        async def run(self) -> None: ...


def a_field_without_a_type() -> None:
    class State(InputState):
        x = InputField(default=1.0)


def a_track_without_an_annotation() -> None:
    class Out(Output):
        main_video = Video


def a_message_field_without_a_type() -> None:
    class M(ModelMessage):
        x = MessageField(default=1)


def a_bare_list_in_a_message() -> None:
    class M(ModelMessage):
        x: list[int] = []


def bounds_that_no_value_fits() -> None:
    class State(InputState):
        x: float = InputField(default=1.0, ge=2, le=1)


def no_choices() -> None:
    class State(InputState):
        x: str = InputField(default="a", choices=[])


def a_length_of_a_number() -> None:
    class State(InputState):
        x: float = InputField(default=1.0, max_length=3)


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (an_event_with_keyword_arguments, TypeError, r"M.a: \*\*more: 'int' cannot be filled from a client's command"),
        (an_event_with_positional_arguments, TypeError, "M.a: x is positional-only"),
        (an_event_without_self, TypeError, "M.a: a method takes self first"),
        (an_event_that_yields, TypeError, "M.a: a handler that yields never runs"),
        (an_event_on_a_static_method, TypeError, "M.a: only a plain method is called for a client, not a static or class"),
        (an_event_of_a_type_no_client_can_send, TypeError, "M.a.x: complex is not a type that a client can set"),
        (an_event_whose_default_breaks_its_bounds, TypeError, "M.a.x: the default breaks the field's own rule"),
        (an_event_that_hides_the_runtime, TypeError, r"M.send: it would hide the runtime's own send.*@event\('send'\)"),
        (an_event_without_a_name, TypeError, "@event on .*M.a: the name must be text, not ''"),
        (a_hook_with_an_argument, TypeError, "M.a: @connected gives no argument 'who'; annotate one with ClientInfo"),
        (a_state_of_a_run_loop, TypeError, r"M.state: only .* and a ReactorApp have a state; write `class M\(ReactorApp\)`"),
        (an_app_under_its_alias, TypeError, r"M has generate\(\), .*: write `class M\(ReactorApp\)`"),
        (an_app_without_a_state, TypeError, r"M has generate\(\), which only a ReactorApp has"),
        (a_state_that_is_not_annotated, TypeError, "M.state: annotate it, `state: Everything`"),
        (an_inference_of_a_run_loop, TypeError, r"M has inference\(\), which a ReactorModel never calls"),
        (a_run_of_a_pipeline, TypeError, r"M has run\(\), which a ReactorPipeline never calls"),
        (a_field_without_a_type, TypeError, "State.x: annotate it with a type"),
        (a_track_without_an_annotation, TypeError, "Out.main_video: annotate it, `main_video: Video`"),
        (a_message_field_without_a_type, TypeError, "M: 'x' is a field but has no type annotation"),
        (a_bare_list_in_a_message, TypeError, "M: mutable default <class 'list'> for field x is not allowed"),
        (bounds_that_no_value_fits, TypeError, "State.x: no value fits: ge 2 is above le 1"),
        (no_choices, TypeError, "State.x: no value fits: choices is empty"),
        (a_length_of_a_number, TypeError, "State.x: .*max_length"),
        (no_default, TypeError, "State.x: a state field needs a default"),
        (breaks_its_own_bounds, TypeError, "State.x: the default breaks the field's own rule: Expected float <= 2.0"),
        (not_one_of_its_choices, TypeError, "State.x: the default 5.0 is not one of its choices"),
        (a_type_no_client_can_set, TypeError, "an annotation cannot be understood: name 'threading_lock'"),
        (a_type_of_the_author, TypeError, "State.x: Opaque is not a type that a client can set"),
        (two_connected, TypeError, "two methods marked @connected: a and b"),
        (a_reserved_event, ValueError, "the name 'connected' is the runtime's own"),
        (an_event_with_a_runtime_name, ValueError, "the name 'reactor.ack' is the runtime's own"),
        (one_event_twice, TypeError, "a and b are both the event 'x'"),
        (an_event_with_star_arguments, TypeError, r"M.a: \*args: 'int' cannot be filled from a client's command; name each"),
        (a_track_of_another_kind, TypeError, "Out.x: a track is annotated Video or Audio, not <class 'int'>"),
        (a_state_that_is_not_an_input_state, TypeError, "M.state: annotate it with an InputState class, not <class 'int'>"),
        (a_mutable_message_default, TypeError, "all messages would share a mutable default"),
    ],
)
def test_a_mistake_raises_when_the_class_is_created(mistake: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as report:
        mistake()
    assert isinstance(report.value, kind)


def test_unknown_options_of_a_field_are_refused() -> None:
    with pytest.raises(TypeError, match="gt"):
        InputField(default=1.0, gt=0)  # type: ignore[call-arg]


def test_a_model_has_the_outputs_of_its_scope_unless_an_annotation_selects_one() -> None:
    class First(Output):
        a: Video

    class Second(Output):
        b: Video

    class Both(ReactorModel): ...

    class Narrowed(ReactorModel):
        output: Second

    assert [track.name for track in declaration_of(Both).tracks] == ["a", "b"]
    assert [track.name for track in declaration_of(Narrowed).tracks] == ["b"]


def test_a_class_that_is_not_a_model_is_refused() -> None:
    with pytest.raises(DeclarationError, match="int is not a model"):
        declaration_of(int)


def test_message_names() -> None:
    class HTTPStatusUpdate(ModelMessage):
        code: int = MessageField(default=200, description="status")

    class Progress2D(ModelMessage):
        x: int

    assert (HTTPStatusUpdate.__reactor_type__, Progress2D.__reactor_type__) == ("http_status_update", "progress2_d")
    assert HTTPStatusUpdate().code == 200


def test_two_messages_with_one_type_are_refused() -> None:
    class HTTPStatus(ModelMessage):
        code: int

    class HttpStatus(ModelMessage):
        code: int

    class M(ReactorModel): ...

    with pytest.raises(DeclarationError, match=r"HttpStatus and .*HTTPStatus are both the message 'http_status'"):
        declaration_of(M).schema()


def test_an_abstract_base_and_helpers_with_names_of_another_kind_are_allowed() -> None:
    class Abstract(ReactorPipeline):
        state: Everything

        def run(self, steps: int) -> int:
            return steps

    class M(Abstract):
        def inference(self) -> Any:
            yield Idle

    class Loop(ReactorModel):
        def inference(self) -> int:
            return 1

        async def run(self) -> None: ...

    assert declaration_of(M).state is Everything
    assert declaration_of(Loop).kind == "run_loop"


def test_a_run_loop_may_have_a_method_generate() -> None:
    class Helped(ReactorModel):
        def generate(self, prompt: str) -> str:
            return prompt

    class Own(ReactorModel):
        state: Everything | None

        async def run(self) -> None: ...

        def generate(self, prompt: str) -> str:
            return prompt

    assert (declaration_of(Helped).kind, declaration_of(Own).kind) == ("run_loop", "run_loop")
