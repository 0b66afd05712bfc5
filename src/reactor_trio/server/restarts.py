"""How often a model that is gone is loaded again, and how long before that it is waited."""

from __future__ import annotations

import trio

#: seconds before each attempt in a row; after the last one a model that does not stay is given up
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
#: seconds for which it must have been loaded for the row to end
STAYED = 1.0


class Restarts:
    """Attempts to load one model again."""

    def __init__(self) -> None:
        self._attempts = 0
        self._loaded_at = trio.current_time()

    @property
    def given_up(self) -> bool:
        """Whether there are no more attempts in this row."""
        return self._attempts >= len(PAUSES)

    def gone(self) -> None:
        """The model that was loaded is gone."""
        if trio.current_time() - self._loaded_at > STAYED:
            self._attempts = 0

    async def wait(self) -> None:
        """Wait as long as is due before the next attempt."""
        await trio.sleep(PAUSES[min(self._attempts, len(PAUSES) - 1)])
        self._attempts += 1

    def loaded(self) -> None:
        """The attempt went well."""
        self._loaded_at = trio.current_time()
