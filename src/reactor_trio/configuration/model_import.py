"""Imports a project's modules: the one with the model's class, and the one with the moderation function.

One process may load several projects (a test suite does), and most of them call their module `pipeline` or `model`. Python
caches modules by name alone. Therefore, before a project's module is imported, a module of the same name from another
project's folder is dropped from the cache. Classes taken from it stay usable.

Every failure is a `ManifestError` of one line; `at` is how that line starts.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.plain_text import one_line, similar

if TYPE_CHECKING:
    from reactor_trio.interface.model import Model

#: what a model is
MODEL_BASES = "a subclass of ReactorPipeline, ReactorModel, ReactorApp or VideoModel"

_import_lock = threading.Lock()
_project_folders: set[Path] = set()


def import_in_progress() -> bool:
    """Whether a model's module is being imported now. Its code must not serve it at that time."""
    return _import_lock.locked()


def import_project_module(folder: Path, name: str, at: str) -> ModuleType:
    """Import a module. `folder` becomes the first entry of `sys.path` and stays there.

    Raises `ManifestError` if there is no such module, or if the import raises (`__cause__` is that exception).
    """
    with _import_lock:
        return _import_module(folder, name, at)


def model_of(module: ModuleType, class_name: str, at: str, near_path: str) -> type[Model]:
    """Return the class of this name. `near_path` is how a hint writes the module: `module` or `module.py`.

    Raises `ManifestError` if there is no such class, or if it is not a model.
    """
    from reactor_trio.interface.model import Model

    found = getattr(module, class_name, None)
    if found is None:
        models = models_of(module)
        near = similar(class_name, models) or next(iter(models), "")
        hint = f"; did you mean {near_path}:{near}?" if near else ""
        raise ManifestError(f"{at}{module.__file__} has no class {class_name}{hint}")
    if not isinstance(found, type) or not issubclass(found, Model):
        modules = [base.__module__ for base in getattr(found, "__mro__", ())]
        hint = next(filter(None, map(_advice, modules)), f"; it must be {MODEL_BASES}")
        raise ManifestError(f"{at}{module.__name__}:{class_name} is not a model{hint}")
    return found


def only_model_of(module: ModuleType, at: str) -> type[Model]:
    """Return the one model that a Python file defines; a second name for it does not count. Raises `ManifestError`."""
    names: dict[type[Model], str] = {}
    for name, found in models_of(module).items():
        names.setdefault(found, name)
    if not names:
        raise ManifestError(f"{at}defines no model, {MODEL_BASES}")
    if len(names) > 1:
        which = f"{module.__name__}.py:{next(iter(names.values()))}"
        raise ManifestError(f"{at}defines several models: {', '.join(names.values())}; name one, as in {which}")
    return next(iter(names))


def models_of(module: ModuleType) -> Mapping[str, type[Model]]:
    """Return the models that a module defines itself, by name."""
    from reactor_trio.interface.model import Model

    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Model) and value.__module__ == module.__name__
    }


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


def missing_module_advice(error: BaseException, folder: Path) -> str:
    """What to install if author code raised `error` because it has not found a module; "" for any other."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if not missing or _has_module(folder, missing.partition(".")[0]):
        return ""
    files = sorted(folder.glob("requirements*.txt"))
    return f"; install what the model needs: pip install -r {files[0]}" if files else "; install the package that has it"


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
            hint = _advice(name) or f" (looked for {folder / name.replace('.', '/')}.py)"
            raise ManifestError(f"{at}no module {name}{hint}") from error
        advice = _advice(error.name or "") or missing_module_advice(error, folder)
        raise ManifestError(_import_failure(at, name, error, folder) + advice, anchor="missing-module") from error
    except (Exception, SystemExit) as error:
        raise ManifestError(_import_failure(at, name, error, folder)) from error


def _advice(missing: str) -> str:
    """What to do if a missing module is one of Reactor's; "" for any other."""
    root, _, rest = missing.partition(".")
    if rest.partition(".")[0] == "flashdreams" and root in ("reactor_runtime", "reactor_trio"):
        return "; Reactor's adapter for FlashDreams is not here: write a ReactorApp whose generate() calls the pipeline"
    if root == "reactor_runtime":
        return "; replace reactor_runtime by reactor_trio, also in reactor.yaml: the names are the same"
    return ""


def _import_failure(at: str, name: str, error: BaseException, folder: Path) -> str:
    where = _of_method(error, folder) or author_location(error, folder)
    text = error.msg if isinstance(error, SyntaxError) else one_line(str(error))
    if isinstance(error, DeclarationError) and "(at " in text:
        where = None  # the text has the place, which is nearer than the class statement
    return f"{at}importing {name} raised {type(error).__name__}: {text}{_meant(error)}" + (f" ({where})" if where else "")


def _of_method(error: BaseException, folder: Path) -> str:
    """The line of the method that is declared wrongly, as `file:line` relative to the author's `folder`; else ""."""
    file, _, line = error.location.rpartition(":") if isinstance(error, DeclarationError) else ("", "", "")
    return f"{Path(file).relative_to(folder)}:{line}" if file and Path(file).is_relative_to(folder) else ""


def _meant(error: BaseException) -> str:
    """Which name was meant, if author code imports one that a module does not have. Python 3.12 says so itself."""
    found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'(?!.*Did you mean)", str(error))
    if not isinstance(error, ImportError) or found is None or found[2] not in sys.modules:
        return ""
    module = sys.modules[found[2]]
    near = similar(found[1], getattr(module, "__all__", None) or dir(module))
    return f"; did you mean {near}?" if near else ""


def _module_files(folder: Path, name: str) -> tuple[str, str]:
    return str(folder / f"{name}.py"), str(folder / name / "__init__.py")


def _has_module(folder: Path, name: str) -> bool:
    return any(Path(file).is_file() for file in _module_files(folder, name))


def no_model_class(given: object) -> str:
    """What is wrong with a value that is given for a model class, and what to do."""
    shell = f", or call `reactor run {given}` in a shell" if str(given).endswith((".py", ".yaml")) else ""
    return f"expected a model class, {MODEL_BASES}, got {given!r}: give the class itself{shell}"
