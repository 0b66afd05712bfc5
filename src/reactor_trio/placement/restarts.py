"""When a model whose process ended is loaded again, and when the server gives it up: a crash loop has an end."""

from __future__ import annotations

import trio

from reactor_trio.placement.model_run import ModelEnding

#: Seconds before each attempt in a row; after the last attempt the server gives the model up.
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Seconds that a loaded model must stay for a new row of attempts. One that ends sooner has crashed again: its next attempt
#: counts in the same row, as if the load itself had failed.
STAYED = 10.0
#: Kills in a first step since the load, in a row, after which the server gives the model up. Each load forgets what the step
#: before has compiled, so a third one would end in the same way.
FIRST_STEPS = 2


class Restarts:
    """Counts the attempts to load one model again."""

    def __init__(self) -> None:
        self._attempts = 0
        self._first_steps = 0
        self._loaded_at = trio.current_time()

    @property
    def given_up(self) -> bool:
        """True after the last attempt of a row."""
        return self._attempts >= len(PAUSES) or self._first_steps >= FIRST_STEPS

    def then(self, ending: ModelEnding) -> str:
        """Say what follows this end, for the log: the rest of a sentence, and advice."""
        return ("" if self.given_up else ", and it is loaded again") + (f". {ending.advice}" if ending.advice else "")

    def why(self, ending: ModelEnding) -> str:
        """Say why the server gives the model up after this end."""
        if self._first_steps < FIRST_STEPS:
            return f"{ending.what}, soon after each of its last loads"
        return f"{ending.what}, after each of its last {FIRST_STEPS} loads. {ending.advice}"

    def gone(self, ending: ModelEnding) -> None:
        """Note that the loaded model has ended."""
        self._first_steps = self._first_steps + 1 if ending.in_first_step else 0
        if trio.current_time() - self._loaded_at >= STAYED:
            self._attempts = 0

    async def wait(self) -> None:
        """Sleep for the pause before the next attempt, and count that attempt."""
        await trio.sleep(PAUSES[self._attempts])
        self._attempts += 1

    def loaded(self) -> None:
        """Note that the model is loaded."""
        self._loaded_at = trio.current_time()
