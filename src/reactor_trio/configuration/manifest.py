"""`Manifest`: reads and checks `reactor.yaml` and `config.yml`, and imports the model class that they name.

A manifest can also be made from a Python file that defines a model, or from a model class. It has no `reactor.yaml` then, so
every setting has its default.

Every failure is a `ManifestError` of one line that names the file and the key. The first use of `Manifest.model` imports the
model's module, so that a manifest can be checked without the cost of `import torch`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.credentials import under
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction, read_introduction
from reactor_trio.configuration.model_import import import_project_module, model_of, no_model_class, only_model_of
from reactor_trio.configuration.reactor_config import ReactorConfig, split_path
from reactor_trio.configuration.settings import AuthSettings, Settings, TlsSettings
from reactor_trio.configuration.yaml_values import override, read_mapping
from reactor_trio.errors import ManifestError
from reactor_trio.interface.manifest_files import ManifestFiles, files_of_manifest
from reactor_trio.plain_text import similar

if TYPE_CHECKING:
    from reactor_trio.interface.model import Model

__all__ = ["MANIFEST_NAME", "Manifest", "load_manifest", "manifest_of_class", "project_folder"]

MANIFEST_NAME = "reactor.yaml"


@dataclass(frozen=True)
class Manifest:
    """The checked `reactor.yaml` of a project folder, with its `config.yml` and the overrides applied.

    Attributes:
        path: the folder, absolute.
        model_path: the text `module:Class`; the module alone if a Python file is served without naming its class.
        config: the argument of `load(config)`.
        weights: the folder of `weights_path`, absolute; None without that key.
        config_path: the file of `config`, absolute; None without that key, or if overrides hold.
        model_key, unused: see `ReactorConfig`.
        introduction: how the model introduces itself, with its pictures.
        python_file: the file, absolute, of a manifest that was made from a Python file.
        given_class: the class, of a manifest that was made from a class.
        doubts: what of the command line's values is hardly meant.
    """

    path: Path
    model_path: str
    name: str
    config: dict[str, Any]
    settings: Settings
    weights: Path | None = None
    config_path: Path | None = None
    model_key: str = "model"
    unused: tuple[str, ...] = ()
    introduction: Introduction = field(default=NOT_INTRODUCED, repr=False)
    python_file: Path | None = None
    given_class: type[Model] | None = None
    doubts: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The file that errors name: `reactor.yaml`, or the Python file."""
        return self.python_file or self.path / MANIFEST_NAME

    @property
    def load_path(self) -> Path:
        """What `load_manifest` takes to make this manifest again: the folder, or the Python file with its class."""
        if self.python_file is None:
            return self.path
        _, colon, class_name = self.model_path.partition(":")
        return self.path / f"{self.python_file.name}{colon}{class_name}"

    @property
    def class_path(self) -> str | None:
        """`module:Class`, if that names the class before it is imported."""
        return self.model_path if self.given_class is None and ":" in self.model_path else None

    @property
    def files(self) -> ManifestFiles:
        """The files that model code may ask for."""
        return ManifestFiles(self.weights, self.config_path)

    @cached_property
    def model(self) -> type[Model]:
        """The model class, for which the presets of the introduction are valid. Raises `ManifestError`.

        The first use imports its module, in the calling thread.
        """
        if self.given_class is not None:
            return self.given_class
        module_name, _, class_name = self.model_path.partition(":")
        at = f"{self.source}: " if self.python_file is not None else f"{self.source}: {self.model_key}: "
        with files_of_manifest(self.files):
            module = import_project_module(self.path, module_name, at)
        if class_name:
            model = model_of(module, class_name, at, module_name if self.python_file is None else self.python_file.name)
        else:
            model = only_model_of(module, at)
        self.introduction.check(model.__reactor_declaration__)
        return model

    def import_quietly(self) -> type[Model]:
        """Return `model`. What the author's module prints on import goes to stderr, so that it does not mix with ours."""
        with redirect_stdout(sys.stderr):
            return self.model

    @cached_property
    def moderate(self) -> Callable[..., Any] | None:
        """The function that `runtime.moderate` names. The first use imports its module. Raises `ManifestError`."""
        text = self.settings.moderate
        if text is None:
            return None
        at = f"{self.source}: runtime.moderate: "
        module_name, name = split_path(text, "runtime.moderate", "module:function")
        module = import_project_module(self.path, module_name, at)
        found = getattr(module, name, None)
        if not callable(found):
            raise ManifestError(f"{at}{module.__file__} has no function {name}")
        return cast("Callable[..., Any]", found)


def load_manifest(
    place: Path, overrides: Sequence[str] = (), runtime_overrides: Mapping[str, object] | None = None
) -> Manifest:
    """Make the manifest of a project. Does not import the model. Raises `ManifestError`.

    Args:
        place: a folder, whose `reactor.yaml` is read with the `config.yml` that it names; or a Python file that defines a
            model, `model.py` or `model.py:Class`, which needs neither.
        overrides: texts `key.sub=value` that replace values of `config.yml`; the values are YAML.
        runtime_overrides: values that replace those of the manifest's `runtime:` section, unless they are None.
    """
    given = {key: value for key, value in (runtime_overrides or {}).items() if value is not None}
    python_file, class_name = _python_file(place)
    if python_file is not None:
        return _manifest_of_file(python_file, class_name, overrides, given)
    folder = place.resolve()
    path = folder / MANIFEST_NAME
    if not path.is_file():
        remedy = "give a project folder or a file such as model.py, or make a project: reactor init NAME"
        raise ManifestError(f"{path}: no such file; {_near_project(folder) or remedy}")
    values = read_mapping(path)
    try:
        runtime = values.get("runtime")
        if given and (runtime is None or isinstance(runtime, dict)):
            values["runtime"] = {**(runtime or {}), **given}
        file = ReactorConfig.from_dict(values)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}", anchor=error.anchor) from None
    config: dict[str, Any] = {}
    if file.config is not None:
        if not os.path.isfile(folder / file.config):  # Path.is_file may raise for a name that is too long
            raise ManifestError(f"{path}: config: no such file: {folder / file.config}")
        config = read_mapping(folder / file.config)
    doubts = _override(config, overrides)
    settings = file.settings
    paths: dict[str, Any] = {}
    if settings.record is not None:
        paths["record"] = _absolute(folder, settings.record)
    if (auth := settings.auth) is not None:
        token, viewer_token = (text and under(folder, text) for text in (auth.token, auth.viewer_token))
        paths["auth"] = AuthSettings(token, viewer_token, tuple(under(folder, text) for text in auth.ticket_keys))
    worlds = settings.worlds
    store = worlds.store and _absolute(folder, worlds.store)
    paths["worlds"] = msgspec.structs.replace(worlds, store=store, keys=tuple(under(folder, text) for text in worlds.keys))
    if (tls := settings.tls) is not None:
        paths["tls"] = TlsSettings(_absolute(folder, tls.certfile), tls.keyfile and _absolute(folder, tls.keyfile))
    settings = msgspec.structs.replace(settings, **paths)
    weights = Path(_absolute(folder, file.weights_path)) if file.weights_path else None
    config_path = folder / file.config if file.config and not overrides else None
    return Manifest(
        folder, file.model, file.name or file.model, config, settings, weights, config_path, file.model_key, file.unused,
        read_introduction(path, file.about), doubts=doubts,
    )  # fmt: skip


def project_folder(place: Path) -> Path:
    """Return the folder of a project whose `place` is as for `load_manifest`, absolute."""
    file, _ = _python_file(place)
    return place.resolve() if file is None else file.parent


def manifest_of_class(
    model: type[Model],
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    runtime: Mapping[str, object] | None = None,
) -> Manifest:
    """Make a manifest for a model class, for programs. Raises `ManifestError`.

    Args:
        name: None means the class's name.
        config: the argument of the model's `load`.
        runtime: values as in the section `runtime:` of a `reactor.yaml`.
    """
    from reactor_trio.interface.model import Model

    if not isinstance(model, type) or not issubclass(model, Model):
        raise ManifestError(no_model_class(model), anchor="wrong-use")
    settings = parse_struct(dict(runtime or {}), Settings, "runtime")
    file = getattr(sys.modules.get(model.__module__), "__file__", None)
    folder = Path.cwd() if file is None else Path(file).resolve().parent
    path = f"{model.__module__}:{model.__qualname__}"
    return Manifest(folder, path, name or model.__name__, dict(config or {}), settings, given_class=model)


def _python_file(place: Path) -> tuple[Path | None, str | None]:
    """Split `model.py:Class` into the absolute file and the class. The file is None if `place` is a folder."""
    name, colon, class_name = place.name.partition(":")
    if not name.endswith(".py") or place.is_dir():
        return None, None
    return place.with_name(name).resolve(), class_name if colon else None


def _near_project(missing: Path) -> str:
    """Which project was meant by a path that is not there: of the Python files and project folders beside it, or ""."""
    try:
        if missing.exists():
            return ""
        beside = [path for path in missing.parent.iterdir() if path.suffix == ".py" or (path / MANIFEST_NAME).is_file()]
    except OSError:
        return ""
    names = {path.stem: path.name for path in beside if path != missing}
    near = missing.stem if missing.stem in names else similar(missing.stem, names)
    return f"did you mean {names[near]}?" if near else ""


def _manifest_of_file(
    file: Path, class_name: str | None, overrides: Sequence[str], runtime: Mapping[str, object]
) -> Manifest:
    if not file.is_file():
        hint = _near_project(file)
        raise ManifestError(f"{file}: no such file" + (f"; {hint}" if hint else ""))
    module = file.stem
    if not module.isidentifier():
        near = re.sub(r"\W", "_", module)
        raise ManifestError(f"{file}: Python cannot import a module with this name; rename the file, for instance {near}.py")
    if class_name is not None and not class_name.isidentifier():
        raise ManifestError(f"{file}: expected {file.name}:Class, got {file.name}:{class_name}")
    settings = parse_struct(runtime, Settings, "runtime")
    config: dict[str, Any] = {}
    doubts = _override(config, overrides)
    path = module if class_name is None else f"{module}:{class_name}"
    return Manifest(file.parent, path, class_name or module, config, settings, python_file=file, doubts=doubts)


def _override(config: dict[str, Any], overrides: Sequence[str]) -> tuple[str, ...]:
    """Set the values that the command line gives, and return what is doubtful about them."""
    return tuple(filter(None, [override(config, text) for text in overrides]))


def _absolute(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser())
