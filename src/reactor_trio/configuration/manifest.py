"""`Manifest`: reads and checks `reactor.yaml` and `config.yml`, and imports the model class that they name.

Every failure is a `ManifestError` of one line that names the file and the key. The first use of `Manifest.model` imports the
model's module, so that a manifest can be checked without the cost of `import torch`.

One process may load several projects (a test suite does), and most of them call their module `pipeline` or `model`. Python
caches modules by name alone. Therefore, before a project's module is imported, a module of the same name from another
project's folder is dropped from the cache. Classes taken from it stay usable.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import msgspec
import yaml

from reactor_trio.configuration.credentials import under
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction, read_introduction
from reactor_trio.configuration.reactor_config import ReactorConfig, split_path
from reactor_trio.configuration.settings import AuthSettings, Settings, TlsSettings
from reactor_trio.errors import ManifestError
from reactor_trio.interface.manifest_files import ManifestFiles, files_of_manifest

if TYPE_CHECKING:
    from reactor_trio.interface.model import Model

__all__ = ["MANIFEST_NAME", "Manifest", "author_location", "load_manifest", "parse_value"]

MANIFEST_NAME = "reactor.yaml"


@dataclass(frozen=True)
class Manifest:
    """The checked `reactor.yaml` of a project folder, with its `config.yml` and the overrides applied.

    Attributes:
        path: the folder, absolute.
        model_path: the text `module:Class`.
        config: the argument of `load(config)`.
        weights: the folder of `weights_path`, absolute; None without that key.
        config_path: the file of `config`, absolute; None without that key, or if overrides hold.
        model_key, unused: see `ReactorConfig`.
        introduction: how the model introduces itself, with its pictures.
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

    @property
    def files(self) -> ManifestFiles:
        """The files that model code may ask for."""
        return ManifestFiles(self.weights, self.config_path)

    @cached_property
    def model(self) -> type[Model]:
        """The model class, for which the presets of the introduction are valid. Raises `ManifestError`.

        The first use imports its module, in the calling thread.
        """
        with files_of_manifest(self.files):
            model = _import_model(self)
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
        at, module, name = _imported(self.path, text, "runtime.moderate", "module:function")
        found = getattr(module, name, None)
        if not callable(found):
            raise ManifestError(f"{at}{module.__file__} has no function {name}")
        return cast("Callable[..., Any]", found)


def load_manifest(
    folder: Path, overrides: Sequence[str] = (), runtime_overrides: Mapping[str, object] | None = None
) -> Manifest:
    """Read `folder/reactor.yaml` and the `config.yml` that it names. Does not import the model. Raises `ManifestError`.

    Args:
        overrides: texts `key.sub=value` that replace values of `config.yml`; the values are YAML.
        runtime_overrides: values that replace those of the manifest's `runtime:` section, unless they are None.
    """
    folder = folder.resolve()
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise ManifestError(f"{path}: no such file; give a project folder with --path, or make one: reactor init NAME")
    values = _read_mapping(path)
    try:
        runtime = values.get("runtime")
        if runtime_overrides and (runtime is None or isinstance(runtime, dict)):
            given = {key: value for key, value in runtime_overrides.items() if value is not None}
            values["runtime"] = {**(runtime or {}), **given}
        file = ReactorConfig.from_dict(values)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None
    config: dict[str, Any] = {}
    if file.config is not None:
        if not os.path.isfile(folder / file.config):  # Path.is_file may raise for a name that is too long
            raise ManifestError(f"{path}: config: no such file: {folder / file.config}")
        config = _read_mapping(folder / file.config)
    for text in overrides:
        _override(config, text)
    settings = file.settings
    paths: dict[str, Any] = {}
    if settings.record is not None:
        paths["record"] = _absolute(folder, settings.record)
    if (auth := settings.auth) is not None:
        token, viewer_token = (text and under(folder, text) for text in (auth.token, auth.viewer_token))
        paths["auth"] = AuthSettings(token, viewer_token, tuple(under(folder, text) for text in auth.ticket_keys))
    if (tls := settings.tls) is not None:
        paths["tls"] = TlsSettings(_absolute(folder, tls.certfile), tls.keyfile and _absolute(folder, tls.keyfile))
    settings = msgspec.structs.replace(settings, **paths)
    weights = Path(_absolute(folder, file.weights_path)) if file.weights_path else None
    config_path = folder / file.config if file.config and not overrides else None
    return Manifest(
        folder, file.model, file.name or file.model, config, settings, weights, config_path, file.model_key, file.unused,
        read_introduction(path, file.about),
    )  # fmt: skip


def _absolute(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser())


# --- YAML -------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys and reads numbers as authors write them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                key = (key_node.tag, key_node.value)
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key_node.value!r} is given twice", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads `1e-4`, the usual way to write a learning rate, as text, and a date as an object that JSON cannot express.
# Like OmegaConf, which authors use for their configs, this loader reads the first as a number and the second as text.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SCIENTIFIC = re.compile(r"^[-+]?(\d[\d_]*\.?|\d[\d_]*\.\d+|\.\d+)[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _SCIENTIFIC, list("-+0123456789."))


def _parse_yaml(text: str) -> Any:
    try:
        # `_Loader` is a SafeLoader, which the analysis does not see
        return yaml.load(text, Loader=_Loader)  # nosec B506
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (LookupError, AttributeError, TypeError) as error:  # PyYAML raises these for `!!bool maybe` or `!!int ''`
        raise yaml.YAMLError(f"a value does not fit its tag: {error}") from error


def parse_value(text: str) -> Any:
    """Parse one value of a command line as YAML: `320` is a number, `[1, 2]` a list. Raises ManifestError."""
    try:
        return _parse_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ManifestError(f"the value is not valid YAML: {_one_line(error)}") from error


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        values = _parse_yaml(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ManifestError(f"{path}{where}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ManifestError(f"{path}: cannot be read: {_one_line(error)}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ManifestError(f"{path}: expected a mapping, got {type(values).__name__}")
    return values


def _override(config: dict[str, Any], text: str) -> None:
    path, equals, value_text = text.partition("=")
    keys = path.split(".")
    if not equals or not all(key.strip() for key in keys):
        raise ManifestError(f"--set {text}: expected key.sub=value")
    try:
        value = parse_value(value_text)
    except ManifestError as error:
        raise ManifestError(f"--set {text}: {error}") from error
    place = config
    for depth, key in enumerate(keys[:-1], start=1):
        below = place.setdefault(key, {})
        if below is None:
            below = place[key] = {}
        if not isinstance(below, dict):
            parent = ".".join(keys[:depth])
            raise ManifestError(f"--set {text}: {parent} is {below!r}, not a mapping, so nothing can be set below it")
        place = below
    place[keys[-1]] = value


# --- the model's module -----------------------------------------------------------------------------------------------

_import_lock = threading.Lock()
_project_folders: set[Path] = set()


def _import_model(manifest: Manifest) -> type[Model]:
    """Import the manifest's `module:Class`. The folder becomes the first entry of `sys.path` and stays there.

    Raises `ManifestError` if there is no such module or class, if the class is not a model, or if the import raises
    (`__cause__` is that exception).
    """
    at, module, class_name = _imported(manifest.path, manifest.model_path, manifest.model_key)
    from reactor_trio.interface.model import Model

    found = getattr(module, class_name, None)
    if found is None:
        classes = [(name, value) for name, value in vars(module).items() if isinstance(value, type)]
        models = [name for name, cls in classes if issubclass(cls, Model) and cls.__module__ == module.__name__]
        near = difflib.get_close_matches(class_name, models, n=1) or models[:1]
        hint = f"; did you mean {module.__name__}:{near[0]}?" if near else ""
        raise ManifestError(f"{at}{module.__file__} has no class {class_name}{hint}")
    if not isinstance(found, type) or not issubclass(found, Model):
        raise ManifestError(
            f"{at}{manifest.model_path} is not a model; it must be a subclass of ReactorPipeline, ReactorModel or VideoModel"
        )
    return found


def author_location(error: BaseException, folder: Path) -> str | None:
    """Return the innermost place of an exception in the author's `folder`, as `file:line` relative to it, or None."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for filename, line in reversed(places):
        # A virtual environment is often inside the project's folder; the author did not write its files.
        if Path(filename).is_relative_to(folder) and "site-packages" not in Path(filename).parts:
            return f"{Path(filename).relative_to(folder)}:{line}"
    return None


def _imported(folder: Path, text: str, key: str, form: str = "module:Class") -> tuple[str, ModuleType, str]:
    """Import the module of `text`, the value of `key`. Returns how an error starts, the module, and the other name."""
    module_name, name = split_path(text, key, form)
    at = f"{folder / MANIFEST_NAME}: {key}: "
    with _import_lock:
        return at, _import_module(folder, module_name, at), name


def _import_module(folder: Path, name: str, at: str) -> ModuleType:
    head = name.partition(".")[0]
    beside = _has_module(folder, head)
    if beside and head in sys.stdlib_module_names:
        raise ManifestError(f"{at}{head} is the name of a module of Python's own library; rename the file")
    for cached in [loaded for loaded in list(sys.modules) if "." not in loaded and _has_module(folder, loaded)]:
        origin = getattr(sys.modules[cached], "__file__", None)
        taken_from = [project for project in _project_folders if origin in _module_files(project, cached)]
        if origin not in _module_files(folder, cached) and (taken_from or cached == head):
            for module in [loaded for loaded in sys.modules if loaded == cached or loaded.startswith(f"{cached}.")]:
                del sys.modules[module]
    _project_folders.add(folder)
    sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (error.name == name or name.startswith(f"{error.name}.")):
            raise ManifestError(f"{at}no module {name} (looked for {folder / name.replace('.', '/')}.py)") from error
        raise ManifestError(_import_failure(at, name, error, folder)) from error
    except (Exception, SystemExit) as error:
        raise ManifestError(_import_failure(at, name, error, folder)) from error


def _import_failure(at: str, name: str, error: BaseException, folder: Path) -> str:
    where = author_location(error, folder)
    text = error.msg if isinstance(error, SyntaxError) else _one_line(error)
    return f"{at}importing {name} raised {type(error).__name__}: {text}" + (f" ({where})" if where else "")


def _module_files(folder: Path, name: str) -> tuple[str, str]:
    return str(folder / f"{name}.py"), str(folder / name / "__init__.py")


def _has_module(folder: Path, name: str) -> bool:
    return any(Path(file).is_file() for file in _module_files(folder, name))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
