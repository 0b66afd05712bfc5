"""`ReactorConfig`: the content of `reactor.yaml`, in either of Reactor's two forms. This module opens no file.

The flat form has `model: module:Class`, `name`, `config` and `weights_path`. The nested form, since Reactor 2.5, has a
mapping `model:` with the `name`; its `import`, `config` and `weights_path` are under `runtime:`, beside this runtime's own
settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reactor_trio.configuration.checked_struct import nearest, parse_struct
from reactor_trio.configuration.introduction import IntroductionKeys
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ManifestError
from reactor_trio.plain_text import similar

__all__ = ["ReactorConfig", "split_path"]

#: Keys of the nested form with which Reactor's command line builds and publishes.
_FOR_PUBLISHING = ("$schema", "apiVersion", "kind", "build", "deployment")
_ABOUT_KEYS = IntroductionKeys.__struct_fields__
_TOP_KEYS = (*_FOR_PUBLISHING, "model", "runtime", *_ABOUT_KEYS, "recording", "moderation")
#: key of the flat form -> the same key in the nested form
_MOVED = {"name": "model.name", "config": "runtime.config", "weights_path": "runtime.weights_path"}
#: sections under `runtime:` of the nested form that this runtime does not use
_SECTIONS = ("recording", "step_results", "livekit")


class _Flat(IntroductionKeys, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: str
    name: str | None = None
    config: str | None = None
    weights_path: str | None = None
    runtime: Settings = Settings()


class ReactorConfig(msgspec.Struct, frozen=True):
    """The checked content of a `reactor.yaml`.

    Attributes:
        model: `module:Class`.
        name: "" if the file has none.
        config, weights_path: as written, relative to the file.
        settings: the rest of `runtime:`.
        about: how the model introduces itself.
        model_key: the key that names the class: `model` or `runtime.import`.
        unused: keys with which Reactor does something, and this runtime nothing.
    """

    model: str
    name: str = ""
    config: str | None = None
    weights_path: str | None = None
    settings: Settings = Settings()
    model_key: str = "model"
    unused: tuple[str, ...] = ()
    about: IntroductionKeys = IntroductionKeys()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ReactorConfig:
        """Check the mapping that the file holds. Raises ManifestError, which names the key."""
        runtime = raw.get("runtime")
        nested = isinstance(raw.get("model"), Mapping) or "$schema" in raw
        if nested or (isinstance(runtime, Mapping) and "import" in runtime):
            flat, unused = _flattened(raw)
            model_key = "runtime.import"
        else:
            flat, unused, model_key = dict(raw), (), "model"
        if "model" not in flat:
            unknown = [str(key) for key in flat if key not in _Flat.__struct_fields__]
            if meant := similar("model", unknown):
                raise ManifestError(f"{meant}: unknown key; did you mean model?")
            raise ManifestError("model: missing; write `model: module:Class`")
        for key in flat:
            if key not in _Flat.__struct_fields__:
                raise ManifestError(f"{key}: unknown key; {_meant(str(key), _Flat.__struct_fields__)}")
        file = parse_struct(flat, _Flat)
        split_path(file.model, model_key)
        if file.runtime.moderate is not None:
            split_path(file.runtime.moderate, "runtime.moderate", "module:function")
        if file.name is not None and not file.name.strip():
            raise ManifestError(f"{_MOVED['name'] if model_key != 'model' else 'name'}: must not be empty")
        about = IntroductionKeys(**{key: getattr(file, key) for key in _ABOUT_KEYS})
        return cls(file.model, file.name or "", file.config, file.weights_path, file.runtime, model_key, unused, about)


def split_path(text: str, key: str, form: str = "module:Class") -> tuple[str, str]:
    """Split `module:Class`. `key` is the manifest's, for errors. Raises ManifestError."""
    module_name, colon, name = text.partition(":")
    if module_name.endswith(".py"):  # the file, as `reactor run` takes it
        module = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise ManifestError(f"{key}: expected {form}, got {text!r}; write {module}:{name or form.partition(':')[2]}")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise ManifestError(f"{key}: expected {form}, got {text!r}")
    return module_name, name


def _meant(key: str, known: Sequence[str]) -> str:
    """What to write instead of a key at the top of the file; one that is like none is perhaps the model's own."""
    hint = nearest(key, known)
    own = "" if similar(key, known) else "; a value of your model belongs in the file of `config`, for load(config)"
    return hint + own


def _flattened(raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the nested form as the flat form, and its keys that this runtime does not use."""
    for key in raw:
        if key not in _TOP_KEYS:
            hint = f"did you mean {_MOVED[key]}?" if key in _MOVED else _meant(str(key), _TOP_KEYS)
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
            "(docs/reference/model/moderation.md), or set moderation.enabled to false"
        )
    about = {key: raw[key] for key in _ABOUT_KEYS if key in raw}
    given = {key: value for key, value in flat.items() if value is not None}
    return given | about | {"runtime": runtime}, tuple(unused)


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
    """Whether a section is enabled: its `enabled`, or `unless_said` if it has no such key."""
    return bool(section.get("enabled", unless_said)) if isinstance(section, Mapping) else bool(section)
