"""What the server process inherits from `reactor run --reload`: listening sockets, and a pipe for the error that ended it.

The child inherits file descriptors; an environment variable carries their numbers, as in systemd's socket activation.
The child removes the variable at once, because a model may start programs of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import msgspec

VARIABLE = "REACTOR_TRIO_INHERITED"

#: Bytes that a pipe takes in one write. The supervisor reads only after the server has ended, so a longer text would block.
_MOST_BYTES = 4096


class Inherited(msgspec.Struct, frozen=True):
    """File descriptors: of listening sockets, and of the pipe's writing end, None without a supervisor."""

    sockets: Sequence[int] = ()
    pipe: int | None = None

    @classmethod
    def take(cls) -> Inherited:
        """Read this process's descriptors from the environment and remove the variable. Empty without `--reload`."""
        text = os.environ.pop(VARIABLE, "")
        pipe, _, sockets = text.partition(":")
        return cls([int(number) for number in sockets.split(",")], int(pipe)) if text else cls()

    def environment(self) -> dict[str, str]:
        """Return the environment for a child process that inherits these descriptors."""
        return os.environ | {VARIABLE: f"{self.pipe}:{','.join(map(str, self.sockets))}"}

    def report(self, line: str) -> None:
        """Send an error line to the supervisor, if there is one."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self.pipe, line.encode()[:_MOST_BYTES])
