"""When a model whose process ended is loaded again, and when the server gives it up: a crash loop has an end."""

from __future__ import annotations

import trio

#: Seconds before each attempt in a row; after the last attempt the server gives the model up.
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Seconds that a loaded model must stay for a new row of attempts. One that ends sooner has crashed again: its next attempt
#: counts in the same row, as if the load itself had failed.
STAYED = 10.0


class Restarts:
    """Counts the attempts to load one model again."""

    def __init__(self) -> None:
        self._attempts = 0
        self._loaded_at = trio.current_time()

    @property
    def given_up(self) -> bool:
        """True after the last attempt of a row."""
        return self._attempts >= len(PAUSES)

    def gone(self) -> None:
        """Note that the loaded model has ended."""
        if trio.current_time() - self._loaded_at >= STAYED:
            self._attempts = 0

    async def wait(self) -> None:
        """Sleep for the pause before the next attempt, and count that attempt."""
        await trio.sleep(PAUSES[self._attempts])
        self._attempts += 1

    def loaded(self) -> None:
        """Note that the model is loaded."""
        self._loaded_at = trio.current_time()
