"""The settings of a world that was saved: checked against what the model's class declares today, and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.state import InputState
from reactor_trio.worlds.nodes import Instance, Items, Node, Pairs, World


def check_settings(state: type[InputState], settings: Mapping[str, Any]) -> None:
    """Check that a client could set each of these today.

    The world of this process needs no such check: the author's own code may set what a client may not.

    Raises CommandError `restore_failed`, whose message names the setting.
    """
    files: dict[str, UploadedFile] = {}

    def described(value: Any) -> Any:
        if not isinstance(value, UploadedFile):
            raise NotImplementedError
        files[str(len(files))] = value
        return {"upload_id": str(len(files) - 1)}

    for name, value in settings.items():
        arguments = state.__reactor_arguments__.get(name)
        if arguments is None:
            continue
        try:
            arguments.decode(msgspec.json.encode({name: value}, enc_hook=described), files.__getitem__)
        except Exception as error:  # also what a class of the author raises
            raise CommandError("restore_failed", f"state.{name}: {error}") from None


def moderated_texts(state: type[InputState], world: World) -> Iterator[tuple[str, str]]:
    """Yield the texts of the settings that are declared with `moderate=True`, each with the name of its setting."""
    for name, arguments in state.__reactor_arguments__.items():
        if any(parameter.info.moderate for parameter in arguments.parameters):
            for text in _texts(world.values.get(f"state.{name}"), set()):
                yield name, text


def _texts(node: Node, seen: set[int]) -> Iterator[str]:
    """Yield the texts in a node. A node may lie in itself."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, (Items, Pairs, Instance)) and id(node) not in seen:
        seen.add(id(node))
        match node:
            case Items(items=parts) | Instance(values=parts):
                inner = parts
            case Pairs(keys=keys, values=values):
                inner = [*keys, *values]
        for each in inner:
            yield from _texts(each, seen)
