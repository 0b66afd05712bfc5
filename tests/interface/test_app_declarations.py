"""What a `ReactorApp` class declares, what is refused when it is made, and the values of a step."""

from __future__ import annotations

from typing import Any

import pytest

from reactor_trio.errors import DeclarationError
from reactor_trio.interface import (
    InputField,
    InputState,
    MediaInput,
    Output,
    ReactorApp,
    StepCompleted,
    StepOutcome,
    UploadedFile,
    Video,
    connected,
    event,
)
from reactor_trio.interface.declaration import declaration_of


class Picture(Output):
    picture: Video


class State(InputState):
    level: int = 0


class Base(ReactorApp):
    output: Picture

    def generate(self, input: Any) -> Any:  # noqa: A002
        return None


def test_an_upload_field_begins_as_none_and_client_is_no_argument() -> None:
    class WithFile(InputState):
        image: UploadedFile
        other: UploadedFile | None
        _kept: UploadedFile

    class App(Base):
        state: WithFile

        @event(name="load")
        def load_image(self, client, image: UploadedFile) -> None: ...

        @event(name="typed")
        def typed(self, client: Any, level: int) -> None: ...

    state = WithFile()
    assert (state.image, state.other, state._kept) == (None, None, None)
    commands = declaration_of(App).commands
    assert list(commands["load"].arguments.schema()["properties"]) == ["image"]
    assert list(commands["typed"].arguments.schema()["properties"]) == ["level"]


def declare_required() -> None:
    class Required(InputState):
        level: int


def declare_two_hooks() -> None:
    class First(Base):
        @connected
        def one(self) -> None: ...

    class Second(First):
        @connected
        def two(self) -> None: ...


def declare_async_generate() -> None:
    class Wrong(Base):
        async def generate(self, input: Any) -> Any:  # noqa: A002
            return None


def declare_generator() -> None:
    class Wrong(Base):
        def generate(self, input: Any) -> Any:  # noqa: A002
            yield None


def declare_plain_process_input() -> None:
    class Wrong(Base):
        def process_input(self) -> Any:
            return None


def declare_plain_process_output() -> None:
    class Wrong(Base):
        def process_output(self, outcome: StepOutcome) -> Any:
            return None


def declare_old_process_input() -> None:
    class Wrong(Base):
        async def process_input(self, state: Any, media: Any) -> Any:
            return None


def declare_generate_without_input() -> None:
    class Wrong(Base):
        def generate(self) -> Any:
            return None


def declare_wrong_state() -> None:
    class Wrong(Base):
        state: int


def declare_inference() -> None:
    class Wrong(Base):
        def inference(self) -> Any:
            yield None


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (declare_required, r"Required\.level: a state field needs a default"),
        (declare_two_hooks, r"Second: two methods marked @connected: .*First\.one and .*Second\.two"),
        (declare_async_generate, r"Wrong\.generate: it must be a plain method"),
        (declare_generator, r"Wrong\.generate: it must be a plain method"),
        (declare_plain_process_input, r"Wrong\.process_input: it must be async"),
        (declare_plain_process_output, r"Wrong\.process_output: it must be async"),
        (declare_old_process_input, r"Wrong\.process_input: it is called as process_input\(\): missing .*'state'"),
        (declare_generate_without_input, r"Wrong\.generate: it is called as generate\(input\): too many"),
        (declare_wrong_state, r"Wrong\.state: annotate it with an InputState class"),
        (declare_inference, r"Wrong has inference\(\), which a ReactorApp never calls"),
    ],
)
def test_mistakes_in_a_class_raise_when_the_class_is_made(declare: Any, text: str) -> None:
    with pytest.raises(DeclarationError, match=text):
        declare()


def test_overriding_a_hook_replaces_it() -> None:
    class First(Base):
        @connected
        def join(self) -> None: ...

    class Second(First):
        @connected
        def join(self) -> None: ...

    handler = declaration_of(Second).connected
    assert handler is not None
    assert handler.attribute == "join"


def test_a_state_may_be_annotated_as_absent_without_a_session() -> None:
    class App(Base):
        state: State | None = None

    assert declaration_of(App).state is State
    assert App().state is None


def test_input_field_refuses_a_default_factory() -> None:
    assert InputField(1, default_factory=None).default == 1
    with pytest.raises(DeclarationError, match="InputField takes no default_factory"):
        InputField(default_factory=list)  # type: ignore[arg-type]


def test_an_uploaded_file_is_made_of_three_values() -> None:
    made = UploadedFile("a.png", "image/png", b"xy")
    assert made.size == 2
    assert made == UploadedFile(name="a.png", mime_type="image/png", data=b"xy")
    assert made == UploadedFile("a.png", "image/png", 2, b"xy")  # as Reactor 2.x has it


def test_a_step_has_a_result_or_an_error() -> None:
    with pytest.raises(ValueError, match="not both"):
        StepOutcome(result=1, error=Full())
    with pytest.raises(Full):
        StepOutcome(error=Full()).to_output()
    assert StepOutcome().to_output() is None
    with pytest.raises(NotImplementedError, match=r"generate\(\) returned int"):
        StepOutcome(result=1).to_output()


class Full(Exception):
    pass


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "result.json", "output.mp4"])
def test_names_of_files_of_a_step(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a file of a step"):
        StepCompleted(files={name: b""})


def test_files_of_a_step_are_bytes_and_copied() -> None:
    with pytest.raises(TypeError, match="must be bytes, not str"):
        StepCompleted(files={"a": "text"})  # type: ignore[dict-item]
    given = {"a": b"1"}
    made = StepCompleted(files=given)
    given["b"] = b"2"
    assert dict(made.files) == {"a": b"1"}


def test_names_by_which_apps_look_up_fields_and_tracks() -> None:
    assert list(State._public_fields) == ["level"]
    assert State._public_fields["level"].default == 0
    assert list(Picture.__tracks__) == ["picture"]


def test_an_unserved_app_has_buffers_for_its_input() -> None:
    class Camera(MediaInput):
        camera: Video

    class App(Base):
        media: Camera

    app = App()
    assert app.media.camera.try_read() is None
    assert app.media.camera is app.media.camera
    app.media = "a test's"  # type: ignore[assignment]
    assert app.media == "a test's"
