"""Commands on their way to the model's half, in order.

A command that names files waits until their bytes are read, and what came after it waits behind it. All others pass at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from reactor_trio.interface.files import UploadedFile
from reactor_trio.session.bell import Bell
from reactor_trio.session.pending import Command
from reactor_trio.session.uploads import UploadStore


class Intake:
    """The way in of one session, on the I/O loop.

    Args:
        post: hands a command to the model's half.
        failed: told of a command whose file could not be read; it goes no further.
    """

    def __init__(self, post: Callable[[Command], None], failed: Callable[[Command, OSError], None]) -> None:
        self._post = post
        self._failed = failed
        self._waiting: deque[tuple[Command, Sequence[UploadedFile]]] = deque()
        self._bell = Bell()

    def add(self, command: Command, files: Sequence[UploadedFile] = ()) -> None:
        """A command has arrived, whose arguments have `files` in them. What names files needs `run`."""
        if not files and not self._waiting:
            self._post(command)
        else:
            self._waiting.append((command, files))
            self._bell.ring()

    async def run(self, uploads: UploadStore) -> None:
        """Task: read what is waited for; until cancelled."""
        while True:
            while not self._waiting:
                await self._bell.wait()
            command, files = self._waiting[0]
            try:
                for file in files:
                    await uploads.load(file)
            except OSError as error:
                self._failed(command, error)
            else:
                self._post(command)
            self._waiting.popleft()
