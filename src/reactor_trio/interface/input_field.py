"""`InputField`: what an author says about one state field or argument, for the runtime and for the people who set it."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, Union

import msgspec
import msgspec.inspect

from reactor_trio.errors import DeclarationError
from reactor_trio.plain_text import similar

F = TypeVar("F", bound=Callable[..., Any])

MISSING: Final[Any] = msgspec.UNSET

#: How the viewer page shows a value, where the author does not leave that to the value's type.
Widget = Literal["text", "textarea", "radio", "color", "seed", "number"]
WIDGETS: Final[tuple[Widget, ...]] = typing.get_args(Widget)

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True, eq=False)
class FieldInfo:
    """The facts that an author gave about one field or argument with `InputField`."""

    default: Any = MISSING
    description: str | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    choices: tuple[Any, ...] | None = None
    moderate: bool = False
    accept: tuple[str, ...] | None = None
    #: makes a new default for each session or call; `default` is then one of its results, for the schema
    factory: Callable[[], Any] | None = None
    group: str | None = None
    advanced: bool = False
    unit: str | None = None
    label: str | None = None
    widget: Widget | None = None
    #: file and line of the author's `InputField`; empty without one
    location: str = ""

    @property
    def hints(self) -> dict[str, Any]:
        """How the page shows it, as the introduction has it (`about` in the schema); empty if the author does not say."""
        own = {name: value for name, value in (("label", self.label), ("widget", self.widget)) if value is not None}
        if not own and not self.advanced and self.group is None and self.unit is None:
            return {}
        return {"group": self.group, "advanced": self.advanced, "unit": self.unit} | own

    @property
    def at(self) -> str:
        """The author's line, for the end of an error's message."""
        return f" (at {self.location})" if self.location else ""

    def broken_by(self, value: object) -> str:
        """Return the limit that a value of author code breaks, as `le=4`; empty if none, and for an array."""
        if self.choices is not None and isinstance(value, bool | int | float | str) and value not in self.choices:
            return f"choices={list(self.choices)!r}"
        measured: tuple[tuple[str, float | None, int], ...] = ()
        if isinstance(value, int | float):
            measured = ("ge", self.ge, -1), ("le", self.le, 1)
        elif isinstance(value, str | list):
            value, measured = len(value), (("min_length", self.min_length, -1), ("max_length", self.max_length, 1))
        else:
            return ""
        broken = (f"{name}={limit!r}" for name, limit, way in measured if limit is not None and (value - limit) * way > 0)
        return next(broken, "")

    def fresh_default(self) -> Any:
        """Return a new default: the factory's result, or a deep copy, so that sessions and calls never share one object."""
        return copy.deepcopy(self.default) if self.factory is None else self.factory()


#: what authors write, of other libraries, -> the keyword of `InputField`
_MEANT = {
    "min": "ge", "minimum": "ge", "gt": "ge", "max": "le", "maximum": "le", "lt": "le", "options": "choices",
    "values": "choices", "title": "label", "help": "description", "doc": "description",
}  # fmt: skip


def _refuses_other_keywords(function: F) -> F:
    """Refuse the keywords that `InputField` does not have, and name the one that was meant."""
    known = [name for name, each in inspect.signature(function).parameters.items() if each.kind is each.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        for name, value in given.items():
            if name not in known and name != "default":
                near = similar(name, known)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                if name in _MEANT:
                    hint = f"write {_MEANT[name]}={value!r}"
                raise DeclarationError(f"InputField has no {name}; {hint} (at {_line(sys._getframe(1))})")
        return function(*args, **given)

    return typing.cast("F", call)


def _line(frame: types.FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@_refuses_other_keywords
def InputField(
    default: Any = MISSING,
    *,
    description: str | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    choices: Sequence[Any] | None = None,
    moderate: bool = False,
    accept: Sequence[str] | None = None,
    label: str | None = None,
    widget: Widget | None = None,
    unit: str | None = None,
    group: str | None = None,
    advanced: bool = False,
    default_factory: None = None,
) -> Any:
    """Declare the default and the limits of an `InputState` field or of an `@event` argument.

    Args:
        default: the value at the start of each session; required for a state field.
        description: text for the schema and the viewer page.
        ge, le: inclusive bounds of a number.
        min_length, max_length: inclusive bounds for the characters of a string or the items of a list.
        choices: the only values allowed.
        moderate: whether the server's moderation hook (`runtime.moderate`), if there is one, checks the text.
        accept: MIME types of an `UploadedFile`, such as `image/*`; the server refuses a file of any other type.
        label: what the page calls it; by default its name with spaces.
        widget: how the page shows it: `text` (one line) or `textarea` (several lines) for a text, `color` for a text
            such as `#ff8800`, `radio` for a choice, `seed` for a whole number with a button that draws another one,
            `number` for a number without a slider. By default the page decides by the type and its limits. A widget does
            not limit the values.
        unit: text behind the number, such as `s` or `px`.
        group: for a setting, which is a state field or the only argument of an event `set_<name>`: the heading under which
            the viewer page shows it, with the others of this group.
        advanced: for a setting: the page folds it away until its viewer wants to see it.
        default_factory: refused; Reactor 3.x has the keyword, too. A mutable default is copied for each session.

    Raises DeclarationError for another keyword and for a `default_factory`, for a label, group or unit without text, and for
    an unknown widget. A widget that does not fit the type is refused when Python creates the class.
    """
    location = _line(sys._getframe(2))  # beyond `_refuses_other_keywords`
    if default_factory is not None:
        raise DeclarationError("InputField takes no default_factory: give the default itself, it is copied for each session")
    for key, text in (("label", label), ("group", group), ("unit", unit)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise DeclarationError(f"InputField: {key} must be a text that is not empty, not {text!r} (at {location})")
    if widget is not None and widget not in WIDGETS:
        near = similar(str(widget), WIDGETS)
        meant = f"; did you mean {near!r}?" if near else f"; the widgets are {', '.join(WIDGETS)}"
        raise DeclarationError(f"InputField: there is no widget {widget!r}{meant} (at {location})")
    return FieldInfo(
        default, description, ge, le, min_length, max_length, tuple(choices) if choices is not None else None, moderate,
        tuple(accept) if accept is not None else None, group=group, advanced=bool(advanced), unit=unit, label=label,
        widget=widget, location=location,
    )  # fmt: skip


def refuse_wrong_widget(annotation: Any, info: FieldInfo) -> None:
    """Raise TypeError if the page cannot show a value of the type `annotation` by the widget that `info` names."""
    kinds = {type(each) for each in _without_none(annotation)}
    chosen = info.choices is not None or kinds <= {msgspec.inspect.LiteralType, msgspec.inspect.EnumType}
    fits, meant = {
        "text": (kinds == {msgspec.inspect.StrType} and not chosen, "a text"),
        "textarea": (kinds == {msgspec.inspect.StrType} and not chosen, "a text"),
        "color": (kinds == {msgspec.inspect.StrType} and not chosen, "a text"),
        "radio": (chosen, "a choice: give choices, or annotate a Literal or an Enum"),
        "seed": (kinds == {msgspec.inspect.IntType} and not chosen, "a whole number"),
        "number": (kinds <= {msgspec.inspect.IntType, msgspec.inspect.FloatType} and not chosen, "a number"),
    }[typing.cast("Widget", info.widget)]
    if not fits:
        shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        raise TypeError(f"the widget {info.widget!r} is for {meant}; this is {shown}")
    if info.widget == "color" and info.default not in (MISSING, None) and not _COLOR.fullmatch(str(info.default)):
        raise TypeError(f"the widget 'color' needs a default such as '#ff8800', not {info.default!r}")


def _without_none(annotation: Any) -> list[msgspec.inspect.Type]:
    """The types that a value may have, except None."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return [part for each in typing.get_args(annotation) if each is not type(None) for part in _without_none(each)]
    return [msgspec.inspect.type_info(annotation)]
