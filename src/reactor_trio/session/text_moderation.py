"""Which texts of a command are checked before the model sees it: those in arguments declared with `moderate=True`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from reactor_trio.errors import CommandError
from reactor_trio.execution.placement import Check
from reactor_trio.interface.declaration import CommandSpec
from reactor_trio.session.command_preparation import Preparation


def moderations(check: Check | None, spec: CommandSpec, arguments: dict[str, Any]) -> list[Preparation]:
    """What must be awaited before the command may go on; nothing without a check or a text to check."""
    if check is None:
        return []
    marked = [parameter.name for parameter in spec.arguments.parameters if parameter.info.moderate]
    return [partial(_moderate, check, spec.name, name, text) for name in marked for text in _texts(arguments[name])]


async def _moderate(check: Check, command: str, field: str, text: str) -> None:
    if (reason := await check(text, command, field)) is not None:
        raise CommandError("moderated", reason)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, also those in its lists and tables."""
    if type(value) is str:
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
