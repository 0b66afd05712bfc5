"""`@event`, `@connected`, `@disconnected`, `@file_uploaded`: decorators for methods that the runtime calls for a client."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal, TypeVar, overload

import msgspec

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.command_arguments import Parameter
from reactor_trio.interface.dataclass_base import resolved_hints as _resolved_hints
from reactor_trio.interface.input_field import MISSING
from reactor_trio.interface.later_names import names_from
from reactor_trio.interface.messages import ClientInfo
from reactor_trio.interface.pydantic_compat import is_field, read_annotation

F = TypeVar("F", bound=Callable[..., Any])
HookKind = Literal["connected", "disconnected", "file_uploaded", "session_started", "session_ended"]
_MARKS = ("__reactor_event__", "__reactor_hook__")
HOOKS: tuple[HookKind, ...] = typing.get_args(HookKind)
#: names on the wire that no command may have
_RESERVED_NAMES = ("connected", "disconnected", "file_uploaded")


class EventMark(msgspec.Struct, frozen=True):
    """The options of `@event`, stored on the method."""

    name: str
    description: str
    dedupe: bool


class Handler(msgspec.Struct, frozen=True):
    """A method of the model that the runtime calls: its attribute name, and its parameters for the client and the file."""

    attribute: str
    client_parameter: str | None = None
    file_parameter: str | None = None


@overload
def event(name: F, /) -> F: ...
@overload
def event(name: str | None = None, description: str = "", dedupe: bool = False) -> Callable[[F], F]: ...
def event(name: Any = None, description: str = "", dedupe: bool = False) -> Any:
    """Make a method a command that clients may send. Write `@event` or `@event(...)`.

    Args:
        name: the command's name on the wire; by default the method's name.
        description: text for the schema; by default the first line of the docstring.
        dedupe: whether only the newest pending command of this name from one client is kept, at the place of the first.

    The method may be sync or async. The runtime validates its annotated arguments; an argument annotated `ClientInfo` gets
    the sender. The return value is the reply in the acknowledgement. Raise `CommandError` to refuse with a code of your own.

    The model's own code may call the method directly. A missing argument then gets the default of its `InputField`, and
    limits are not checked.

    Raises DeclarationError (a ValueError) for a reserved name.
    """

    def mark(function: F) -> F:
        wire_name = function.__name__ if name is None or callable(name) else name
        if not isinstance(wire_name, str) or not wire_name:
            raise DeclarationError(f"@event on {function.__qualname__}: the name must be text, not {wire_name!r}")
        if wire_name in _RESERVED_NAMES or wire_name.startswith("reactor."):
            raise DeclarationError(f"@event on {function.__qualname__}: the name {wire_name!r} is the runtime's own")
        doc = (inspect.getdoc(function) or "").partition("\n")[0]
        function = _with_plain_defaults(function)
        function.__reactor_event__ = EventMark(wire_name, description or doc, dedupe)  # type: ignore[attr-defined]
        return function

    return mark(name) if callable(name) else mark


def _hook(kind: HookKind, function: F) -> F:
    function = _with_plain_defaults(function)
    function.__reactor_hook__ = kind  # type: ignore[attr-defined]
    return function


def _with_plain_defaults(function: F) -> F:
    """Wrap `function` so that a direct call may omit arguments whose default is an `InputField` or pydantic's `Field`.

    The wrapper keeps the signature, from which the declaration is read. A `function` without such a default is returned
    unchanged.
    """
    if not callable(function) or isinstance(function, staticmethod) or yields(function):
        return function  # `declare` refuses it when Python creates the class
    signature = inspect.signature(function)
    infos = {name: read_annotation(Any, p.default)[1] for name, p in signature.parameters.items() if is_field(p.default)}
    if not infos:
        return function

    def completed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            given = signature.bind_partial(*args, **kwargs).arguments
        except TypeError:
            return kwargs  # the call itself raises a better message
        left_out = {name: info for name, info in infos.items() if name not in given}
        if missing := [repr(name) for name, info in left_out.items() if info.default is MISSING]:
            plural = "s" if len(missing) > 1 else ""
            raise TypeError(f"{function.__qualname__}() missing required argument{plural}: {' and '.join(missing)}")
        return kwargs | {name: info.fresh_default() for name, info in left_out.items()}

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **completed(args, kwargs))

        return typing.cast("F", call_async)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **completed(args, kwargs))

    return typing.cast("F", call)


def yields(function: Callable[..., Any]) -> bool:
    """Whether a call of `function` itself makes a sync or async generator."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def connected(function: F) -> F:
    """Call this method when a client connects, before the session's generator starts. It may take a `ClientInfo`."""
    return _hook("connected", function)


def disconnected(function: F) -> F:
    """Call this method when the client has left, while its state is still readable. It may take a `ClientInfo`."""
    return _hook("disconnected", function)


def session_started(function: F) -> F:
    """Call this method as a session begins: its state is new, `connected` not yet set. It may take a `ClientInfo`.

    An exception of it ends the session.
    """
    return _hook("session_started", function)


def session_ended(function: F) -> F:
    """Call this method as a session ends, after everything else. Its state can still be read. It may take a `ClientInfo`."""
    return _hook("session_ended", function)


def file_uploaded(function: F) -> F:
    """Call this method with each complete file that a client uploads, between two steps.

    It takes one `UploadedFile`, and may take a `ClientInfo`.
    """
    return _hook("file_uploaded", function)


def marked_methods(cls: type) -> dict[str, Any]:
    """Return the methods of `cls` that `@event` or a hook decorator marked, by attribute name, nearest class first."""
    attributes: dict[str, Any] = {}
    for base in cls.__mro__:
        for attribute, value in vars(base).items():
            attributes.setdefault(attribute, value)
    found: dict[str, Any] = {}
    for attribute, value in attributes.items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if any(hasattr(part, mark) for part in (value, function) for mark in _MARKS):
            if function is not value:
                raise DeclarationError(f"{cls.__qualname__}.{attribute}: only a plain method is called for a client, not a "
                                       "static or class method")  # fmt: skip
            found[attribute] = value
    return found


def hook_of(cls: type, kind: HookKind) -> Handler | None:
    """Return the hook of `kind` from the nearest class that has one. Raises DeclarationError for two in one class."""
    for base in cls.__mro__:
        names = [name for name, value in vars(base).items() if getattr(value, "__reactor_hook__", None) == kind]
        if len(names) > 1:
            raise DeclarationError(f"{base.__qualname__}: two methods marked @{kind}: {' and '.join(names)}")
        if names and getattr(cls, names[0], None) is not None:
            function = vars(base)[names[0]]
            parameters, client, _ = arguments_of(cls, names[0], function, None)
            if kind == "file_uploaded":
                if len(parameters) != 1:
                    raise DeclarationError(
                        f"{base.__qualname__}.{names[0]}: @file_uploaded takes one UploadedFile and may take a ClientInfo"
                    )
                return Handler(names[0], client, parameters[0].name)
            if required := [p.name for p in parameters if p.required]:
                raise DeclarationError(
                    f"{cls.__qualname__}.{names[0]}: @{kind} gives no argument {required[0]!r}; annotate one with "
                    "ClientInfo to get the client"
                )
            return Handler(names[0], client)
    return None


def arguments_of(
    cls: type, attribute: str, function: Callable[..., Any], frame: FrameType | None
) -> tuple[list[Parameter], str | None, Any]:
    """Return the typed parameters of a handler, the name of its parameter for the client, and the type of its result.

    The parameter for the client (None without one) is annotated `ClientInfo`, or is named `client` and not annotated. In an
    app it is the one named `client`, whatever its annotation. The type of the result is MISSING if it is not annotated.
    """
    where = f"{cls.__qualname__}.{attribute}"
    if yields(function):
        raise DeclarationError(f"{where}: a handler that yields never runs; use await self.send(message) to send messages")
    given_names = list(inspect.signature(function).parameters.values())
    first = given_names[0] if given_names else None
    if first is None or not _is_self(first):
        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        positional = either if first is None else min(first.kind, either)
        meant = inspect.Signature([inspect.Parameter("self", positional), *given_names])
        raise DeclarationError(f"{where}: a method takes self first: write `def {function.__name__}{meant}`")
    hints = _resolved_hints(function, frame)  # type: ignore[arg-type]
    parameters: list[Parameter] = []
    client: str | None = None
    for parameter in given_names[1:]:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(f"{where}: {parameter.name} is positional-only; arguments of a command have names")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DeclarationError(f"{where}: {parameter} cannot be filled from a client's command; name each argument")
        hint = hints.get(parameter.name, Any)
        by_name = parameter.name == "client" and (parameter.annotation is parameter.empty or cls.__reactor_app__)  # type: ignore[attr-defined]
        if hint is ClientInfo or ClientInfo in typing.get_args(hint) or by_name:
            client = parameter.name
            continue
        default = MISSING if parameter.default is parameter.empty else parameter.default
        hint, info = read_annotation(hint, default)
        parameters.append(Parameter(parameter.name, hint, info, required=info.default is MISSING))
    return parameters, client, hints.get("return", MISSING)


def _is_self(first: inspect.Parameter) -> bool:
    """Whether a method's first parameter can be meant for the model, not for a client's value."""
    if first.kind in (first.KEYWORD_ONLY, first.VAR_POSITIONAL):
        return first.kind is first.VAR_POSITIONAL
    return first.name in ("self", "this", "model", "app") or first.name.startswith("_")


def check_app(cls: type) -> None:
    """Check the three methods and the hooks of a `ReactorApp` class. Raises DeclarationError."""
    for name in ("process_input", "process_output"):
        if not inspect.iscoroutinefunction(inspect.unwrap(getattr(cls, name))):
            raise DeclarationError(f"{cls.__qualname__}.{name}: it must be async, `async def {name}`")
    generate = inspect.unwrap(cls.generate)  # type: ignore[attr-defined]
    if inspect.iscoroutinefunction(generate) or yields(generate):
        raise DeclarationError(
            f"{cls.__qualname__}.generate: it must be a plain method that returns one result, `def generate(self, input)`"
        )
    for name, given in (("process_input", ""), ("generate", "input"), ("process_output", "outcome")):
        try:
            inspect.signature(getattr(cls, name)).bind(None, *given.split())
        except TypeError as error:
            raise DeclarationError(f"{cls.__qualname__}.{name}: it is called as {name}({given}): {error}") from None
    for kind in HOOKS:
        marked = {
            name: base
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if getattr(value, "__reactor_hook__", None) == kind
        }
        if len(marked) > 1:
            places = " and ".join(f"{base.__qualname__}.{name}" for name, base in marked.items())
            raise DeclarationError(f"{cls.__qualname__}: two methods marked @{kind}: {places}; override the method instead")


if not typing.TYPE_CHECKING:
    __getattr__ = names_from(__name__, {
        "EVENT_REGISTRY": "interface.EVENT_REGISTRY", "MESSAGE_REGISTRY": "interface.MESSAGE_REGISTRY",
        "ApplicationError": "interface.ApplicationError", "CommandError": "errors.CommandError",
        "MessageField": "interface.MessageField", "ModelMessage": "interface.ModelMessage",
    })  # fmt: skip
