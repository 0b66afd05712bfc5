"""Commands on their way to the model's half, in order.

A command that must be prepared (its text checked, its files read) waits until that is done, and what came after it waits
behind it. All others pass at once. How many may wait is bounded where commands are counted, in `CommandLedger`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import CommandError
from reactor_trio.execution.command_queue import Command

#: Awaited before a command goes on; raises CommandError to refuse it, and nothing else.
Preparation = Callable[[], Awaitable[None]]


class CommandPreparer:
    """The way in of one session, on the I/O loop.

    Args:
        post: hands a command to the model's half.
        refused: told of a command that a preparation refused; it goes no further.
    """

    def __init__(
        self, post: Callable[[Command], object], refused: Callable[[Command, CommandError], object]
    ) -> None:
        self._post = post
        self._refused = refused
        self._waiting: deque[tuple[Command, Sequence[Preparation]]] = deque()
        self._wakeup = RepeatedEvent()

    def add(self, command: Command, preparations: Sequence[Preparation] = ()) -> None:
        """A command has arrived. What must be prepared needs `run`."""
        if not preparations and not self._waiting:
            self._post(command)
        else:
            self._waiting.append((command, preparations))
            self._wakeup.set()

    async def run(self) -> None:
        """Task: prepare what waits, one command after the other; until cancelled."""
        while True:
            while not self._waiting:
                await self._wakeup.wait()
            command, preparations = self._waiting[0]
            try:
                for prepare in preparations:
                    await prepare()
            except CommandError as error:
                self._refused(command, error)
            else:
                self._post(command)
            self._waiting.popleft()
