"""The YAML of `config.yml`, of `reactor.yaml` and of a command line's values: as authors write it, read safely."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from reactor_trio.errors import ManifestError
from reactor_trio.plain_text import one_line, similar

__all__ = ["override", "parse_value", "read_mapping"]


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
        raise ManifestError(f"the value is not valid YAML: {one_line(str(error))}") from error


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a file that holds a mapping. Raises ManifestError."""
    try:
        values = _parse_yaml(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ManifestError(f"{path}{where}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ManifestError(f"{path}: cannot be read: {one_line(str(error))}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ManifestError(f"{path}: expected a mapping, got {type(values).__name__}")
    return values


def override(config: dict[str, Any], text: str) -> str:
    """Set the value that `key.sub=value` names. Returns what is doubtful about it, "" if nothing is. Raises ManifestError.

    A key that the configuration does not have may be meant, since the model's code may have a default for it.
    """
    path, equals, value_text = text.partition("=")
    keys = path.split(".")
    if not equals or not all(key.strip() for key in keys):
        raise ManifestError(f"--set {text}: expected key.sub=value")
    try:
        value = parse_value(value_text)
    except ManifestError as error:
        raise ManifestError(f"--set {text}: {error}") from error
    doubt = ""
    if keys[0] == "runtime" and "runtime" not in config:
        doubt = "--set changes the model's config.yml, and `runtime` is a section of reactor.yaml: write it there"
    place = config
    for depth, key in enumerate(keys, start=1):
        if key not in place and (near := similar(key, map(str, place))):
            doubt = doubt or f"config.yml has no key {key}; did you mean {'.'.join([*keys[: depth - 1], near])}?"
        if depth == len(keys):
            break
        below = place.setdefault(key, {})
        if below is None:
            below = place[key] = {}
        if not isinstance(below, dict):
            parent = ".".join(keys[:depth])
            raise ManifestError(f"--set {text}: {parent} is {below!r}, not a mapping, so nothing can be set below it")
        place = below
    place[keys[-1]] = value
    return doubt and f"--set {text}: {doubt}"
