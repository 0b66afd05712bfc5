"""The model's side of a server, of a test and of a rendering: which model, and its placement."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.checked_struct import nearest, parse_struct
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ManifestError, ReactorError
from reactor_trio.interface.manifest_files import ManifestFiles
from reactor_trio.interface.model import Model
from reactor_trio.kinds.model_checks import CheckedModel, check_model
from reactor_trio.placement.loading import load_model
from reactor_trio.placement.placement import Check, LoadPlacement, LocalPlacement, Placement, called, failing_load
from reactor_trio.plain_text import similar
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:
    from reactor_trio.placement.isolation.model_process import OpenProcess

#: `hook(text, command=, field=)` is the author's function that moderates text; it may be async.
Hook = Callable[..., "str | Awaitable[str | None] | None"]


class ModelSource(msgspec.Struct, frozen=True):
    """A model class or a manifest, with what holds for it.

    Attributes:
        find_model, find_hook: return the class and the moderation hook. Called where the model runs, since they may import.
        config: the argument of the model's `load`.
        path: `module:Class`; None: the module that defines the class.
        files: those that the manifest names.
        introduction: how the model introduces itself.
    """

    name: str
    find_model: Callable[[], type[Model]]
    find_hook: Callable[[], Hook | None]
    config: dict[str, Any]
    settings: Settings
    path: str | None = None
    files: ManifestFiles = ManifestFiles()
    introduction: Introduction = NOT_INTRODUCED


def model_source(
    model: type[Model] | Manifest,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    moderate: Hook | None = None,
) -> ModelSource:
    """What is given here holds instead of what the manifest says. Raises ReactorError for values of other types."""
    check_given(model, settings)
    if isinstance(model, Manifest):
        files = model.files if config is None else model.files._replace(config=None)
        return ModelSource(
            name or model.name, lambda: model.model, lambda: moderate or model.moderate,
            dict(model.config if config is None else config), settings or model.settings, model.class_path, files,
            model.introduction,
        )  # fmt: skip
    settings = settings or Settings()
    if settings.moderate is not None:
        raise ManifestError("runtime.moderate: without a manifest give the function itself, serve(..., moderate=...)")
    return ModelSource(name or model.__name__, lambda: model, lambda: moderate, dict(config or {}), settings)


def check_given(model: object, settings: object) -> None:
    """Refuse what is no model class and no manifest, and settings that are none. Raises ReactorError."""
    if not isinstance(model, Manifest) and not (isinstance(model, type) and issubclass(model, Model)):
        what = repr(model) if isinstance(model, str | os.PathLike) else type(model).__name__
        what = f"{model.__name__}, which is no model" if isinstance(model, type) else what
        hint = f"the class itself, {type(model).__name__}" if isinstance(model, Model) else "the class of your model"
        raise ReactorError(
            f"expected a model class or a manifest, got {what}: give {hint}, or a project's manifest, "
            "load_manifest(Path(\"project\")) of reactor_trio.configuration.manifest",
            anchor="wrong-use",
        )
    if settings is not None and not isinstance(settings, Settings):
        wrong, example = "", "Settings(isolation='process')"
        if isinstance(settings, Mapping):
            wrong, example = _meant(settings, example)
        raise ReactorError(
            f"settings: expected Settings, got {type(settings).__name__}{wrong}: give settings={example}, "
            "of reactor_trio.configuration.settings",
            anchor="wrong-use",
        )


def check_options(options: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse options that a program gives and that are none of the `known`. Raises ReactorError."""
    for name, value in options.items():
        if name in known:
            continue
        settings = Settings.__struct_fields__
        setting = name if name in settings else similar(name, settings)
        option = similar(name, known)
        meant = nearest(name, known)
        if setting and (setting == name or not option):
            example = _meant({setting: value}, "")[1] or f"Settings({setting}=...)"
            meant = f"did you mean settings={example}, of reactor_trio.configuration.settings?"
        raise ReactorError(f"RuntimeHost: unknown option {name}; {meant}", anchor="wrong-use")


def _meant(values: Mapping[Any, object], otherwise: str) -> tuple[str, str]:
    """What is wrong with these settings, and the call that makes them: of the names that were meant, if they can be used."""
    fields, wrong = Settings.__struct_fields__, ""
    try:
        parse_struct(values, Settings)
    except ManifestError as error:
        wrong = f" ({error})"
    meant = {key if key in fields else similar(str(key), fields): value for key, value in values.items()}
    try:
        parse_struct(meant, Settings)
    except ManifestError:
        return wrong, otherwise
    return wrong, f"Settings({', '.join(f'{key}={value!r}' for key, value in meant.items())})"


def placement_loader(
    source: ModelSource,
    nursery: trio.Nursery,
    host: ModelHost | None,
    make_check: Callable[[Hook, float], Check],
    *,
    open_process: OpenProcess | None = None,
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = trio.to_thread.run_sync,
) -> LoadPlacement:
    """The function that loads the model in the placement that the settings choose, or that the model implies.

    A model is imported where it runs, so the number of its ranks is known only while it is loaded.

    Args:
        nursery: runs the tasks that watch a model's process.
        host: the model loop of this process; None is enough for `isolation: process`.
        make_check: turns the moderation hook and its time limit in seconds into what a session calls.
        open_process: starts a model's process, or as many as it has ranks.
        in_thread: calls a function in a worker thread.
    """

    settings = source.settings

    def find() -> tuple[CheckedModel, Check | None]:
        model_class, hook = source.find_model(), source.find_hook()
        moderate = None if hook is None else make_check(hook, settings.moderate_timeout)
        return check_model(model_class, settings), moderate

    async def load(config: dict[str, Any], telemetry: Telemetry) -> Placement:
        with failing_load(source.name, host):
            if settings.isolation == "process":
                checked, moderate = await in_thread(find)
            else:
                assert host is not None
                checked, moderate = await host.run(called, find)
                if checked.processes == 1:
                    loaded = await host.run(load_model, checked, config, host, settings, telemetry)
                    return LocalPlacement(loaded, moderate)
        from reactor_trio.placement.isolation.process_supervision import load_in_process
        from reactor_trio.placement.processes import open_processes

        return await load_in_process(
            nursery, open_process or open_processes, source.name, checked, moderate, source.path, source.files,
            config, settings, telemetry,
        )  # fmt: skip

    return load
