"""`InputField(label=, widget=)`: what the page is told, and what is refused, with the author's line."""

from __future__ import annotations

import enum
import json
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from reactor_trio.errors import DeclarationError
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video, event
from reactor_trio.testing import open_server


class Mode(enum.Enum):
    DAY = "day"
    NIGHT = "night"


class Picture(Output):
    main_video: Video


class Settings(InputState):
    prompt: str = InputField(default="", label="What to paint", widget="textarea", group="Words")
    name: str | None = InputField(default=None, widget="text", max_length=200)
    tint: str = InputField(default="#ff8800", widget="color")
    mode: Mode = InputField(default=Mode.DAY, widget="radio")
    style: Literal["ink", "oil"] | None = InputField(default="ink", widget="radio")
    size: int = InputField(default=1, choices=[1, 2], widget="radio")
    seed: int | None = InputField(default=7, ge=0, widget="seed", unit="#")
    exact: float = InputField(default=0.5, ge=0, le=1, widget="number")
    plain: int = 1


class Painter(ReactorPipeline):
    state: Settings
    output: Picture

    @event
    def burst(self, count: int = InputField(ge=1, le=9, label="How many", unit="×"), wide: bool = False):
        pass

    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


def hint(**said: Any) -> dict[str, Any]:
    return {"group": None, "advanced": False, "unit": None} | said


async def test_the_page_is_told_labels_and_widgets(autojump_clock):
    class Bare(ReactorPipeline):
        inference = Painter.inference

    async with open_server(Painter) as server:
        schema = json.loads(server.http("/schema").body)
    assert schema["about"]["settings"] == {
        "prompt": hint(group="Words", label="What to paint", widget="textarea"),
        "name": hint(widget="text"), "tint": hint(widget="color"), "mode": hint(widget="radio"),
        "style": hint(widget="radio"), "size": hint(widget="radio"), "seed": hint(unit="#", widget="seed"),
        "exact": hint(widget="number"),
    }  # fmt: skip
    assert schema["about"]["arguments"] == {"burst": {"count": hint(unit="×", label="How many")}}
    assert "widget" not in json.dumps(schema["commands"])  # so a hint changes no `schema_hash`
    async with open_server(Bare) as server:
        assert "arguments" not in json.loads(server.http("/schema").body)["about"]


def here(error: pytest.ExceptionInfo[DeclarationError], needle: str) -> str:
    """The message without its place; fails if that is not the line of this file with `needle`."""
    text, path, line = re.fullmatch(r"(.*) \(at (.*):(\d+)\)", str(error.value)).groups()  # type: ignore[union-attr]
    assert Path(path) == Path(__file__)
    assert needle in Path(__file__).read_text().splitlines()[int(line) - 1]
    return text


def test_an_unknown_widget_names_the_meant_one_and_the_line():
    with pytest.raises(DeclarationError) as caught:
        InputField(default="", widget="textaera")  # the misspelt one
    assert here(caught, "# the misspelt one") == "InputField: there is no widget 'textaera'; did you mean 'textarea'?"
    with pytest.raises(DeclarationError) as caught:
        InputField(default=1, widget="dial")  # the unknown one
    known = "text, textarea, radio, color, seed, number"
    assert here(caught, "# the unknown one") == f"InputField: there is no widget 'dial'; the widgets are {known}"
    with pytest.raises(DeclarationError) as caught:
        InputField(default=1, label=" ")  # the blank label
    assert here(caught, "# the blank label") == "InputField: label must be a text that is not empty, not ' '"


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (str, {"default": "a", "widget": "seed"}, "the widget 'seed' is for a whole number; this is str"),
        (float, {"default": 0.5, "widget": "seed"}, "the widget 'seed' is for a whole number; this is float"),
        (int, {"default": 1, "widget": "textarea"}, "the widget 'textarea' is for a text; this is int"),
        (Mode, {"default": Mode.DAY, "widget": "color"}, "the widget 'color' is for a text; this is Mode"),
        (str, {"default": "a", "choices": ["a", "b"], "widget": "text"}, "the widget 'text' is for a text; this is str"),
        (bool, {"default": True, "widget": "number"}, "the widget 'number' is for a number; this is bool"),
        (str, {"default": "a", "widget": "radio"},
         "the widget 'radio' is for a choice: give choices, or annotate a Literal or an Enum; this is str"),
        (str, {"default": "red", "widget": "color"}, "the widget 'color' needs a default such as '#ff8800', not 'red'"),
    ],
)  # fmt: skip
def test_a_widget_that_does_not_fit_is_refused(annotation, given, message):
    with pytest.raises(DeclarationError) as caught:
        type("Wrong", (InputState,), {"__annotations__": {"x": annotation}, "x": InputField(**given)})  # this field
    assert here(caught, "# this field") == f"Wrong.x: {message}"
