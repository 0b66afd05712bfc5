"""How often a model that is gone is loaded again, and how long before that it is waited."""

from __future__ import annotations

import trio

#: seconds before each attempt in a row; a model that cannot be loaded is given up after the last one
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
#: seconds for which it must have been loaded for the next attempt to be made at once
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
        stayed = trio.current_time() - self._loaded_at > STAYED
        # One that goes soon after each load must not spin; its clients shall not wait long for it all the same.
        self._attempts = 0 if stayed else min(self._attempts, 1)

    async def wait(self) -> None:
        """Wait as long as is due before the next attempt."""
        await trio.sleep(PAUSES[min(self._attempts, len(PAUSES) - 1)])
        self._attempts += 1

    def loaded(self) -> None:
        """The attempt went well."""
        self._loaded_at = trio.current_time()
