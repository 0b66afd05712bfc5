"""What stands in `reactor.yaml`, in either of the forms that Reactor has had. Nothing here opens a file.

Flat: `model: module:Class`, `name`, `config`, `weights_path`. Nested, as Reactor has it from 2.5 on: `model:` is a mapping
with the `name`, and `import`, `config` and `weights_path` stand under `runtime:`, beside this runtime's own settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from reactor_trio.configuration.settings import Settings, parse_struct
from reactor_trio.errors import ManifestError

__all__ = ["ReactorConfig", "split_path"]

#: The nested form's keys that Reactor's command line reads: they say how to build and publish.
_FOR_PUBLISHING = ("$schema", "apiVersion", "kind", "build", "deployment")
_TOP_KEYS = (*_FOR_PUBLISHING, "model", "runtime", "recording", "moderation")
#: where the nested form has the keys of the flat one
_MOVED = {"name": "model.name", "config": "runtime.config", "weights_path": "runtime.weights_path"}
#: sections under `runtime:` of the nested form that this runtime has no use for
_SECTIONS = ("recording", "step_results", "livekit")


class _Flat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str
    name: str | None = None
    config: str | None = None
    weights_path: str | None = None
    runtime: Settings = Settings()


class ReactorConfig(msgspec.Struct, frozen=True):
    """A `reactor.yaml`, checked.

    Attributes:
        model: `module:Class`.
        name: empty if the file says none.
        config, weights_path: as they are written, relative to the file.
        settings: the rest of `runtime:`.
        model_key: where the file names the class: `model` or `runtime.import`.
        unused: keys that Reactor acts upon and this runtime does not.
    """

    model: str
    name: str = ""
    config: str | None = None
    weights_path: str | None = None
    settings: Settings = Settings()
    model_key: str = "model"
    unused: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ReactorConfig:
        """Read the mapping in the file. Raises ManifestError, which names the key."""
        runtime = raw.get("runtime")
        nested = isinstance(raw.get("model"), Mapping) or "$schema" in raw
        if nested or (isinstance(runtime, Mapping) and "import" in runtime):
            flat, unused = _flattened(raw)
            model_key = "runtime.import"
        else:
            flat, unused, model_key = dict(raw), (), "model"
        if "model" not in flat:
            raise ManifestError("model: missing; write `model: module:Class`")
        file = parse_struct(flat, _Flat)
        split_path(file.model, model_key)
        if file.runtime.moderate is not None:
            split_path(file.runtime.moderate, "runtime.moderate", "module:function")
        if file.name is not None and not file.name.strip():
            raise ManifestError(f"{_MOVED['name'] if model_key != 'model' else 'name'}: must not be empty")
        return cls(file.model, file.name or "", file.config, file.weights_path, file.runtime, model_key, unused)


def split_path(text: str, key: str, form: str = "module:Class") -> tuple[str, str]:
    """`module:Class` in two. Raises ManifestError for `key`."""
    module_name, colon, name = text.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise ManifestError(f"{key}: expected {form}, got {text!r}")
    return module_name, name


def _flattened(raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The nested form as the flat one, and which of its keys say what is not done."""
    for key in raw:
        if key not in _TOP_KEYS:
            near = _MOVED.get(key) or next(iter(difflib.get_close_matches(str(key), _TOP_KEYS, n=1)), None)
            hint = f"did you mean {near}?" if near else f"known keys: {', '.join(_TOP_KEYS)}"
            raise ManifestError(f"{key}: unknown key beside runtime.import; {hint}")
    model, runtime = _section(raw, "model"), dict(_section(raw, "runtime"))
    if "import" not in runtime:
        raise ManifestError("runtime.import: missing; write `import: module:Class` under `runtime:`")
    flat = {
        "model": _text(runtime.pop("import"), "runtime.import"),
        "name": _text(model.get("name"), "model.name"),
        "config": _text(runtime.pop("config", None), "runtime.config"),
        "weights_path": _text(runtime.pop("weights_path", None), "runtime.weights_path"),
    }
    sections = {f"runtime.{key}": runtime.pop(key, None) for key in _SECTIONS} | {"recording": raw.get("recording")}
    unused = [key for key, section in sections.items() if section and _is_on(section, unless_said=True)]
    if _is_on(raw.get("moderation"), unless_said=False) and runtime.get("moderate") is None:
        raise ManifestError(
            "moderation: here a function of the project moderates; name it as runtime.moderate "
            "(docs/guide/moderation.md), or set moderation.enabled to false"
        )
    return {key: value for key, value in flat.items() if value is not None} | {"runtime": runtime}, tuple(unused)


def _section(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        also = "; the class is runtime.import" if key == "model" else ""
        raise ManifestError(f"{key}: expected a mapping, got {type(value).__name__}{also}")
    return value


def _text(value: Any, key: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ManifestError(f"{key}: Expected str, got {type(value).__name__}")
    return value


def _is_on(section: Any, unless_said: bool) -> bool:
    """Whether a section asks for what it is about: by `enabled`, and as `unless_said` without that."""
    return bool(section.get("enabled", unless_said)) if isinstance(section, Mapping) else bool(section)
