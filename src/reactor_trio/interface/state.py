"""`InputState`: the parameters that a client may change while the model runs. Each session gets a new instance."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.command_arguments import Arguments, Parameter
from reactor_trio.interface.dataclass_base import class_statement_frame, make_dataclass, resolved_hints
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.input_field import MISSING, FieldInfo, InputField


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
                raise DeclarationError(f"{cls.__qualname__}.{name}: annotate it with a type, `{name}: int = ...`")
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
