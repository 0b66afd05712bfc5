"""`Hands`: which keys and pads the player holds now. The client tells the model again after a rewind or a restore.

A key that the player has released since may be pressed in the other world, and the other way round. The web client does the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_PAD: Final = "gamepad_"
_NUMBERS: Final = ("number", "integer")


class Hands:
    """What this client sent last of each command that is held and released: those with `down`, and those of gamepads."""

    def __init__(self) -> None:
        self._sent: dict[str, Mapping[str, Any]] = {}

    def sent(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Take note of a command of this client."""
        if "down" in arguments or name.startswith(_PAD):
            self._sent[name] = dict(arguments)

    def now(self, commands: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return every command that is held and released, as it is now, releases first.

        Args:
            commands: of the model's schema. One that this client has never sent is released.
        """
        given = {one["name"]: one.get("schema") or {} for one in commands}
        now = [(name, self._sent.get(name) or _at_rest(name, schema)) for name, schema in given.items()]
        return sorted(((name, arguments) for name, arguments in now if arguments), key=lambda one: _held(one[1]))


def _at_rest(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that release a command; empty if nothing holds it, or if it cannot be released without more."""
    kinds = {argument: one.get("type") for argument, one in schema.get("properties", {}).items()}
    down = kinds.get("down") == "boolean"
    if not down and not (name.startswith(_PAD) and kinds):
        return {}
    rest: dict[str, Any] = {"down": False} if down else {each: 0 for each, kind in kinds.items() if kind in _NUMBERS}
    return rest if set(schema.get("required", ())) <= rest.keys() else {}


def _held(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["down"]) if "down" in arguments else any(arguments.values())
