"""Commands with which a model says what its own process holds: for a model that runs in a process of its own."""

from __future__ import annotations

from typing import Any

import msgspec

from reactor_trio.interface import event
from tests.leftovers.held import Held, hold_still, why


class HeldCommands:
    """A base of a model. A test asks with `client.command("held")`, and makes the answer a `Held` with `held_of`."""

    @event
    def hold_still(self) -> None:
        """See `held.hold_still`."""
        hold_still()

    @event
    def held(self) -> dict[str, Any]:
        """What the process holds now."""
        return msgspec.to_builtins(Held.now())

    @event
    def why(self, before: dict[str, Any]) -> str:
        """See `held.why`."""
        return why(held_of(before))


def held_of(answer: Any) -> Held:
    """The `Held` of a command's reply."""
    return msgspec.convert(answer, Held)
