"""The blocking author API of Reactor 0.x and 1.x: `VideoModel`, `@model`, `@command`.

`start_session()` is a plain function. It runs on a thread of its own while a client is connected, and emits frames through
`get_ctx()`. The same session code drives it as the other kinds of model. Source: Reactor's documentation of block emission.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, overload

import numpy.typing as npt

from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface.declaration import ModelKind
from reactor_trio.interface.events import event
from reactor_trio.interface.model import Model
from reactor_trio.plain_text import one_line, similar

C = TypeVar("C", bound="type[VideoModel]")
F = TypeVar("F", bound=Callable[..., Any])


class VideoModel(Model):
    """A model with a blocking session function.

    `__init__(config)` loads the weights, once. `config` is the project's configuration: an OmegaConf `DictConfig` if
    omegaconf is installed, else a dict whose keys are also attributes. An `__init__` with other parameters gets the
    configuration's values by their names, as in Reactor 0.x.

    `start_session()` serves one client after the other on the same thread. When it returns, the session is over; when it
    raises, the session ends with `model_error`. Methods marked `@command` run meanwhile, one at a time, on a second thread;
    hooks and `on_frame()` do, too. The author must guard data that they share with `start_session()`. Undo changes for one
    client in a `finally`.

    The runtime measures the frame rate: frames of a block divided by the time since the previous block (see
    `disable_monitoring`).
    """

    __reactor_kind__: ClassVar[ModelKind] = "blocking"

    #: the arguments of `@model`
    model_name: ClassVar[str]
    model_config: ClassVar[str | None]
    model_weights: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if inspect.iscoroutinefunction(cls.start_session):
            raise DeclarationError(f"{cls.__qualname__}.start_session: it runs on a thread, so it must be a plain function")
        if hasattr(cls, "on_media"):
            raise DeclarationError(
                f"{cls.__qualname__}.on_media: the runtime never calls it; write on_frame(self, frame), or read "
                "get_ctx().get_track(name).latest()"
            )

    def start_session(self) -> None:
        """Serve one client: emit until `get_ctx().should_stop()`."""
        raise NotImplementedError(f"{type(self).__name__} has no start_session()")

    def on_frame(self, frame: npt.NDArray[Any]) -> None:
        """Override it to receive each picture of the client, `(H, W, 3)` uint8 RGB. It runs on the commands' thread."""


@overload
def model(cls: C, /) -> C: ...
@overload
def model(*, name: str | None = None, config: str | None = None, weights: Any = None) -> Callable[[C], C]: ...
def model(cls: Any = None, *, name: str | None = None, config: str | None = None, weights: Any = None) -> Any:
    """Mark the `VideoModel` that a module serves.

    Args:
        name, config, weights: stored on the class as `model_name`, `model_config` and `model_weights`. The server does not
            use them: the manifest names the model and its configuration.

    Raises DeclarationError if the class is not a VideoModel, or is the second marked one in its module.
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
    """Make a method of a `VideoModel` a command that clients may send. It must be a plain function.

    Args:
        name: the command's name on the wire; by default the method's name.
        description: text for the schema; by default the first line of the docstring.

    The runtime validates its arguments as for `@event`; `InputField`, `typing.Annotated` and pydantic's `Field` give limits.
    Its return value is the reply in the acknowledgement.
    """

    def mark(function: F) -> F:
        if inspect.iscoroutinefunction(function):
            raise DeclarationError(f"@command on {function.__qualname__}: it runs on a thread, so it cannot be async")
        return event(name if not callable(name) else None, description)(function)

    return mark(name) if callable(name) else mark


class Config(dict[str, Any]):
    """A configuration whose keys are also attributes, at every depth. It stands in for a `DictConfig` without omegaconf."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"the configuration has no {name!r}; it has: {', '.join(self) or 'nothing'}")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @classmethod
    def of(cls, value: Any) -> Any:
        """Return `value` with each dict in it as a Config."""
        if isinstance(value, dict):
            return cls({key: cls.of(item) for key, item in value.items()})
        return [cls.of(item) for item in value] if isinstance(value, list) else value


def instantiate(cls: type[VideoModel], config: dict[str, Any]) -> VideoModel:
    """Create a model of `cls` from its configuration.

    The whole configuration goes to a parameter of `__init__` named `config`, as in Reactor 1.x. It also goes to the only
    parameter, if that has no default and the configuration has no key of its name. Otherwise each parameter gets the value
    of its own name, as in 0.x. Raises ManifestError if the configuration does not fit; errors of `__init__` propagate.
    """
    make: Callable[..., VideoModel] = cls
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    if cls.__init__ is object.__init__ or not parameters:
        return make()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if "config" in named:
        return make(config=_dict_config(config))
    others = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    if len(others) == 1 and others[0].default is inspect.Parameter.empty and others[0].name not in config:
        whole, name = _dict_config(config), others[0].name
        return make(**{name: whole}) if name in named else make(whole)
    where = f"{cls.__qualname__}.__init__"
    if missing := [p.name for p in named.values() if p.default is p.empty and p.name not in config]:
        raise ManifestError(f"config: {where} needs {', '.join(missing)}, which the configuration does not have; it has: "
                            f"{', '.join(map(str, config)) or 'nothing'}")  # fmt: skip
    unknown = [str(key) for key in config if key not in named]
    if unknown and len(others) == len(parameters):
        near = similar(unknown[0], [name for name in named if name not in config])
        meant = f"did you mean {near}?" if near else f"it takes: {', '.join(named)}"
        raise ManifestError(f"config: the configuration has {', '.join(unknown)}, which {where} does not take; {meant}")
    return make(**Config.of(config))


def _dict_config(config: dict[str, Any]) -> Any:
    """Return the configuration as a `DictConfig`, because 1.x code passes it to `OmegaConf.merge`. Raises ManifestError."""
    try:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
    except ImportError:
        return Config.of(config)
    try:
        return OmegaConf.create(config, flags={"allow_objects": True})  # a test's configuration may hold any object
    except OmegaConfBaseException as error:
        raise ManifestError(f"config: OmegaConf cannot hold it: {one_line(str(error))}") from error
