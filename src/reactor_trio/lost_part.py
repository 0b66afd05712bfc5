"""The part of a model that has failed for good and that nothing has replaced yet, such as a group of ranks.

Code that runs such parts (`distributed`) notes a failure here. Code that runs the model (`execution`) asks when author code
has raised. Neither imports the other, and a server without such parts loads none of their code. The reference is weak: a
part that the author has let go of counts no more.
"""

from __future__ import annotations

import weakref
from typing import Final


class ModelPartLost(BaseException):
    """A part that the model needs has failed, and nothing replaces it. It is no Exception, so it ends the model."""


class LostPart:
    """The newest loss of this process. One is enough: a part that is called after it has failed is noted again."""

    def __init__(self) -> None:
        self._loss: tuple[weakref.ref[object], str] | None = None

    def note(self, part: object, what: str) -> None:
        """The part has failed; `what` says so in words."""
        self._loss = weakref.ref(part), what

    def forget(self, part: object) -> None:
        """The author has ended the part, and so answers for the model without it."""
        if self._loss is not None and self._loss[0]() is part:
            self._loss = None

    def replaced(self) -> None:
        """Another part has started."""
        self._loss = None

    def what(self) -> str | None:
        """What has failed, None if nothing has."""
        loss = self._loss
        return None if loss is None or loss[0]() is None else loss[1]


LOST: Final = LostPart()
