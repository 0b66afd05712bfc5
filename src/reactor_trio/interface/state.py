"""`InputState`: the parameters that a client may change while the model runs. Each session gets a new instance."""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, dataclass_transform

from reactor_trio.errors import ERRORS_PAGE, DeclarationError
from reactor_trio.interface.author_code import calling_line
from reactor_trio.interface.command_arguments import Arguments, Parameter, short_repr
from reactor_trio.interface.dataclass_base import class_statement_frame, make_dataclass, resolved_hints
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.input_field import MISSING, FieldInfo, InputField
from reactor_trio.plain_text import similar

log = logging.getLogger("reactor_trio.model")


@dataclass_transform(field_specifiers=(InputField, dataclasses.field))
class InputState:
    """Base class of a model's state. Each public field makes a command `set_<field>`; `_fields` are private to the model.

    `@dataclass` on the subclass is optional. Every field needs a default, because a session begins with a value for each
    field; that of an `UploadedFile` is None if the author gives no other. A mutable default (a list, a dict, an array) is
    copied for each session. A `default_factory` of `dataclasses.field` runs for each session; that of a public field also
    runs once at the class's creation, for the schema.
    """

    __reactor_arguments__: ClassVar[dict[str, Arguments]] = {}
    #: as in Reactor 3.x: the public fields by name
    _public_fields: ClassVar[dict[str, FieldInfo]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        hints = resolved_hints(cls, class_statement_frame())
        own = cls.__dict__.get("__annotations__", {})
        arguments = dict(cls.__reactor_arguments__)
        for name, value in vars(cls).items():
            if isinstance(value, FieldInfo) and name not in own:
                meant = type(value.default).__name__ if isinstance(value.default, bool | int | float | str) else "int"
                raise DeclarationError(
                    f"{cls.__qualname__}.{name}: annotate it with a type, `{name}: {meant} = ...`{value.at}"
                )
        for name, hint in hints.items():
            if name not in own or name.startswith("__") or typing.get_origin(hint) is ClassVar or hint is ClassVar:
                continue
            if name.startswith("_") and _factory(cls, name) is not None:
                continue  # the dataclass runs the factory for each session; the schema does not show the field
            info = _field_info(cls, name, hint)
            _install_default(cls, name, info)
            if not name.startswith("_"):
                arguments[name] = Arguments(cls.__qualname__, f"set_{name}", [Parameter(name, hint, info)])
        cls.__reactor_arguments__ = arguments
        cls._public_fields = {name: each.parameters[0].info for name, each in arguments.items()}
        make_dataclass(cls)

    if not typing.TYPE_CHECKING:  # else an editor would take any name for an attribute

        def __getattr__(self, name):
            near = "" if name.startswith("_") else _similar(name, tuple(self.__reactor_arguments__))
            hint = f"; did you mean {near}?" if near else ""
            raise AttributeError(f"{type(self).__qualname__} has no field {name}{hint}")

        def __setattr__(self, name, value):
            fields = self._public_fields
            if (info := fields.get(name)) is not None:
                if limit := info.broken_by(value):
                    _doubt_value(type(self).__qualname__, name, value, limit)
            elif not name.startswith("_") and not hasattr(type(self), name):
                _doubt_new_attribute(type(self).__qualname__, name, tuple(fields))
            object.__setattr__(self, name, value)


@lru_cache(maxsize=256)
def _similar(name: str, fields: tuple[str, ...]) -> str:
    """The field that is most like a name that is none, "" if none is. Models may ask for such a name in each step."""
    return similar(name, fields, cutoff=0.75)


#: the fields and the names that were warned of, each with its class
_doubted: set[tuple[str, str]] = set()


def _doubt_new_attribute(state: str, name: str, fields: tuple[str, ...]) -> None:
    """Warn once that a new attribute of a state is named almost as a field. Other attributes are the author's own."""
    if (state, name) not in _doubted and (near := _similar(name, fields)):
        _doubted.add((state, name))
        at, link = calling_line(), f"{ERRORS_PAGE}#state"
        log.warning("%s has no field %s, so no client sees it; did you mean %s? (at %s) (%s)", state, name, near, at, link)


def _doubt_value(state: str, name: str, value: object, limit: str) -> None:
    """Warn once that author code sets a field to a value which its own limits refuse to clients."""
    if (state, name) not in _doubted:
        _doubted.add((state, name))
        at = f" (at {place})" if (place := calling_line()) else ""
        log.warning(
            "%s.%s is set to %s, outside its %s: it is kept, but no client can set it. Bound the value, or change the "
            "limit%s (%s)", state, name, short_repr(value), limit, at, f"{ERRORS_PAGE}#state",
        )  # fmt: skip


def _factory(cls: type, name: str) -> Callable[[], Any] | None:
    given = cls.__dict__.get(name)
    if not isinstance(given, dataclasses.Field) or given.default_factory is dataclasses.MISSING:
        return None
    return given.default_factory


def _field_info(cls: type, name: str, hint: Any) -> FieldInfo:
    given = cls.__dict__.get(name, MISSING)
    if isinstance(given, FieldInfo):
        info = given
    elif (factory := _factory(cls, name)) is not None:
        info = FieldInfo(factory(), factory=factory)
    elif isinstance(given, dataclasses.Field):
        info = FieldInfo(MISSING if given.default is dataclasses.MISSING else given.default)
    else:
        info = FieldInfo(given)
    if info.default is MISSING and UploadedFile in (hint, *typing.get_args(hint)):
        info = dataclasses.replace(info, default=None)
    if info.default is MISSING:
        raise DeclarationError(f"{cls.__qualname__}.{name}: a state field needs a default, its value as a session begins")
    return info


def _install_default(cls: type, name: str, info: FieldInfo) -> None:
    """Set the class attribute from which `@dataclass` reads the default."""
    if info.factory is None:  # else the attribute is the author's `field(default_factory=...)` already
        mutable = type(info.default).__hash__ is None or dataclasses.is_dataclass(info.default)
        setattr(cls, name, dataclasses.field(default_factory=info.fresh_default) if mutable else info.default)
