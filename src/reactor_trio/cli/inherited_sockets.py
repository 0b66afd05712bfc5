"""What `reactor run --reload` hands to the server that it starts: sockets that listen, and a pipe to say what went wrong.

They travel as file descriptors, their numbers in a variable of the environment, as systemd does it. The variable is
taken out at once, for a model may start programs of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import msgspec

__all__ = ["Inherited"]

VARIABLE = "REACTOR_TRIO_INHERITED"

#: A pipe takes so many bytes at once, and nobody reads before the writer has ended.
_MOST_BYTES = 4096


class Inherited(msgspec.Struct, frozen=True):
    """Descriptors: of sockets that listen already, and of the pipe, if there is one."""

    sockets: Sequence[int] = ()
    pipe: int | None = None

    @classmethod
    def take(cls) -> Inherited:
        """What this process was given; nothing, as a rule."""
        text = os.environ.pop(VARIABLE, "")
        pipe, _, sockets = text.partition(":")
        return cls([int(number) for number in sockets.split(",")], int(pipe)) if text else cls()

    def environment(self) -> dict[str, str]:
        """The environment for the process that is given this."""
        return os.environ | {VARIABLE: f"{self.pipe}:{','.join(map(str, self.sockets))}"}

    def report(self, line: str) -> None:
        """Say what went wrong, if somebody asked."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self.pipe, line.encode()[:_MOST_BYTES])
