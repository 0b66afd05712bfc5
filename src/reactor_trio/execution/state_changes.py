"""Finds which settings of a session's state have changed, on the model loop.

The model's side looks after each step, hook and handler. A number or a text costs one comparison by identity. A value that
can change in place is written as JSON at each look, which costs what its size costs. A value that is left out, because it is
too large or JSON cannot express it, is looked at again only after a second; a number, a text or another fixed value that
takes its place is seen at once. So a model that assigns a new large list at each step pays for one list a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactor_trio.interface.json_values import json_of

#: types of values that cannot change in place
_FIXED: Final = frozenset({bool, int, float, str, bytes, type(None)})
#: seconds until a left-out value is looked at again
RECHECK_INTERVAL: Final = 1.0

_NOTHING: Final = object()


class StateChanges:
    """Watches the settings of one session.

    Args:
        defaults: the names of the settings, each with the value that clients take it to have, as JSON.
    """

    def __init__(self, defaults: Mapping[str, bytes]) -> None:
        self._reported = dict(defaults)
        #: the values of the newest looks that cannot change in place; the state alone keeps all others
        self._seen: dict[str, object] = {}
        self._left_out_until: dict[str, float] = {}

    def changes(self, state: Any, now: float) -> dict[str, bytes]:
        """The settings of `state` that changed since the last look, as JSON; an empty text for a value that is left out."""
        changed: dict[str, bytes] = {}
        for name, reported in self._reported.items():
            value = getattr(state, name, _NOTHING)
            if type(value) in _FIXED:
                if value is self._seen.get(name, _NOTHING):
                    continue
                self._seen[name] = value
            elif now < self._left_out_until.get(name, now):
                continue
            else:
                self._seen.pop(name, None)
            text = json_of(value)
            if text:
                self._left_out_until.pop(name, None)
            else:
                self._left_out_until[name] = now + RECHECK_INTERVAL
            if text != reported:
                changed[name] = text
        self._reported |= changed
        return changed
