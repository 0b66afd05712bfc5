"""What has changed in a session's state since the last look, on the model loop.

The model looks after each step, hook and handler. A number or a text costs one comparison by identity. A value that can
change in place is written as JSON at each look, which costs what its size costs; so one that is too large for clients is
looked at again after a second, or when another object takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactor_trio.interface.values import json_of

#: types of values that cannot change in place
_FIXED: Final = frozenset({bool, int, float, str, bytes, type(None)})
#: seconds until a value that is left out is looked at again
PATIENCE: Final = 1.0

_NOTHING: Final = object()


class StateWatch:
    """Watches the settings of one session.

    Args:
        defaults: the names of the settings, each with the value that clients take it to have, as JSON.
    """

    def __init__(self, defaults: Mapping[str, bytes]) -> None:
        self._told = dict(defaults)
        self._seen: dict[str, object] = {}
        self._left_out_until: dict[str, float] = {}

    def changes(self, state: Any, now: float) -> dict[str, bytes]:
        """The settings of `state` that have another value than at the last look, as JSON; empty if it is left out."""
        changed: dict[str, bytes] = {}
        for name, told in self._told.items():
            value = getattr(state, name, _NOTHING)
            if value is self._seen.get(name, _NOTHING) and (
                type(value) in _FIXED or now < self._left_out_until.get(name, now)
            ):
                continue
            self._seen[name] = value
            text = json_of(value)
            if not text:
                self._left_out_until[name] = now + PATIENCE
            if text != told:
                changed[name] = text
        self._told |= changed
        return changed
