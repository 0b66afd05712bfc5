"""The values that pass between the three methods of a `ReactorApp`: refusal, outcome of a step, and its completion.

Source: Reactor 3.10's step API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from reactor_trio.interface.tracks import Output

#: Names that a step's own files have in Reactor 3.x.
_RESERVED_FILES = ("result.json", "output.mp4")


class ApplicationError(Exception):
    """`process_input` raises it to refuse a step: nothing is ready to generate. The text says why; a subclass refuses too.

    The runtime asks again at the next command or input frame, or after 20 ms. Raised anywhere else it is an error like any
    other.
    """


@dataclass(frozen=True)
class StepOutcome:
    """What one call of `generate` came to: a result or an error. Tests of an app make it themselves.

    Attributes:
        result: what `generate` returned; None if it raised.
        error: the Exception that `generate` raised, or None.
        elapsed: seconds that `generate` took, also if it raised.

    Raises ValueError if there are both a result and an error.
    """

    result: Any = None
    error: Exception | None = None
    elapsed: float = 0.0

    def __post_init__(self) -> None:
        if self.result is not None and self.error is not None:
            raise ValueError("a StepOutcome has a result or an error, not both")

    def to_output(self) -> Output | None:
        """Return the result if it is an `Output` or None. Raises the error of the step, if it has one.

        Raises NotImplementedError for any other result: only the app knows how to show it.
        """
        if self.error is not None:
            raise self.error
        if self.result is None or isinstance(self.result, Output):
            return self.result
        raise NotImplementedError(
            f"generate() returned {type(self.result).__name__}, which is no Output: return an Output, or define "
            "process_output(), which makes one of it"
        )


@dataclass(frozen=True)
class StepCompleted:
    """A finished step with more than its media. `process_output` may return it in place of an `Output`.

    Attributes:
        output: the media of the step, or None.
        files: file name -> its bytes. A copy of the mapping that was given.
        error: what went wrong in a step that is finished all the same, or None.
        elapsed: seconds that the step took, or None.

    Raises ValueError for a name that is no plain file name, or that Reactor uses itself; TypeError for content other than
    bytes. This runtime shows the output and logs the rest at DEBUG; it keeps no files.
    """

    output: Output | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    error: str | None = None
    elapsed: float | None = None

    def __post_init__(self) -> None:
        for name, content in self.files.items():
            if name in ("", ".", "..", *_RESERVED_FILES) or "/" in name or "\\" in name:
                raise ValueError(f"StepCompleted.files: {name!r} cannot be the name of a file of a step")
            if not isinstance(content, bytes):
                raise TypeError(f"StepCompleted.files: {name!r} must be bytes, not {type(content).__name__}")
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
