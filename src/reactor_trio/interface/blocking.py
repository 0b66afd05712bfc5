"""The blocking generation of the author API: `VideoModel`, `@model`, `@command`. Source: mission page 004.

`start_session()` is a plain function that runs on a thread of its own from the client's coming to its going, and pushes
frames through `get_ctx()`. It is driven by the same session as the other kinds of model.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, overload

import numpy.typing as npt

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.declaration import ModelKind
from reactor_trio.interface.events import event
from reactor_trio.interface.model import Model

C = TypeVar("C", bound="type[VideoModel]")
F = TypeVar("F", bound=Callable[..., Any])


class VideoModel(Model):
    """A model with a blocking session function.

    `__init__(config)` loads the weights, once; `config` is the project's configuration, with its keys as attributes too.
    `start_session()` serves one client after the other on the same thread; when it returns the session is over, when it
    raises the client is told `model_error`. Methods marked `@command` run one at a time on a second thread meanwhile, so
    what they share with `start_session()` is the author's to guard. Changes for one client must be undone in a `finally`.

    The rate is measured: frames of a block over the time since the block before it (see `disable_monitoring`).
    """

    __reactor_kind__: ClassVar[ModelKind] = "blocking"

    #: what `@model` said
    model_name: ClassVar[str]
    model_config: ClassVar[str | None]
    model_weights: ClassVar[Any]

    def start_session(self) -> None:
        """Serve one client: emit until `get_ctx().should_stop()`."""
        raise NotImplementedError(f"{type(self).__name__} has no start_session()")

    def on_frame(self, frame: npt.NDArray[Any]) -> None:
        """A picture `(H, W, 3)` uint8 RGB of the client has come. Override it; it runs where commands do."""


@overload
def model(cls: C, /) -> C: ...
@overload
def model(*, name: str | None = None, config: str | None = None, weights: Any = None) -> Callable[[C], C]: ...
def model(cls: Any = None, *, name: str | None = None, config: str | None = None, weights: Any = None) -> Any:
    """Mark the `VideoModel` that a module serves.

    Args:
        name, config, weights: kept on the class as `model_name`, `model_config` and `model_weights`; the manifest says
            what is served under which name and configuration.

    Raises DeclarationError if it is no VideoModel, or the second one in its module.
    """

    def mark(marked: Any) -> Any:
        if not (isinstance(marked, type) and issubclass(marked, VideoModel)):
            raise DeclarationError(f"@model belongs on a subclass of VideoModel, not on {marked!r}")
        module = vars(sys.modules[marked.__module__])
        for other in module.values():
            known = isinstance(other, type) and other.__module__ == marked.__module__ and "model_name" in vars(other)
            if known and other.__qualname__ != marked.__qualname__:
                raise DeclarationError(f"two models in one module: {other.__qualname__} and {marked.__qualname__}")
        marked.model_name, marked.model_config, marked.model_weights = name or marked.__name__, config, weights
        return marked

    return mark(cls) if cls is not None else mark


@overload
def command(name: F, /) -> F: ...
@overload
def command(name: str | None = None, description: str = "") -> Callable[[F], F]: ...
def command(name: Any = None, description: str = "") -> Any:
    """Make a method of a `VideoModel` a command that clients may send; it must be a plain function.

    Args:
        name: the command's name on the wire; the method's own name if left out.
        description: shown in the schema.

    Its arguments are validated as those of `@event`; limits may be given by `InputField`, by `typing.Annotated`, or by
    pydantic's `Field`. What it returns is the reply in the acknowledgement.
    """

    def mark(function: F) -> F:
        if inspect.iscoroutinefunction(function):
            raise DeclarationError(f"@command on {function.__qualname__}: it runs on a thread, so it cannot be async")
        return event(name if not callable(name) else None, description)(function)

    return mark(name) if callable(name) else mark


class Config(dict[str, Any]):
    """A configuration whose keys can be read as attributes too, at every depth, as `VideoModel` code expects."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"the configuration has no {name!r}; it has: {', '.join(self) or 'nothing'}") from None
        return value

    @classmethod
    def of(cls, value: Any) -> Any:
        """`value` with each mapping in it as a Config."""
        if isinstance(value, dict):
            return cls({key: cls.of(item) for key, item in value.items()})
        return [cls.of(item) for item in value] if isinstance(value, list) else value


def instantiate(cls: type[VideoModel], config: dict[str, Any]) -> VideoModel:
    """A new model; `__init__` gets the configuration if it takes an argument."""
    takes = [p for p in list(inspect.signature(cls.__init__).parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
    return cls(Config.of(config)) if takes and cls.__init__ is not object.__init__ else cls()  # type: ignore[call-arg]
