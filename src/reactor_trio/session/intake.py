"""Commands between socket and model: in order, also when the text in some of them must be checked first.

What needs no check passes at once, unless a check is under way before it: then it waits behind that, so that commands are
applied in the order in which they came. How many may wait is bounded where commands are counted, in `Session.submit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from reactor_trio.interface.declaration import CommandSpec
from reactor_trio.session.bell import Bell
from reactor_trio.session.pending import Command

#: `check(text, command, field)` gives the reason for which the text is refused, None if it is fine. It does not raise.
Check = Callable[[str, str, str], Awaitable[str | None]]


class Intake:
    """The queue of one session; on the I/O loop.

    Args:
        check: None checks nothing.
        accept: given each command that may go on to the model.
        refuse: given each that may not, and why.
    """

    def __init__(
        self, check: Check | None, accept: Callable[[Command], object], refuse: Callable[[Command, str], object]
    ) -> None:
        self._check = check
        self._accept = accept
        self._refuse = refuse
        self._waiting: deque[tuple[Command, list[tuple[str, str]]]] = deque()
        self._bell = Bell()

    def take(self, command: Command, spec: CommandSpec) -> None:
        """A command has arrived."""
        texts = list(_moderated(command, spec)) if self._check is not None else []
        if not texts and not self._waiting:
            self._accept(command)
            return
        self._waiting.append((command, texts))
        self._bell.ring()

    async def run(self) -> None:
        """Check what waits, one command after the other, until cancelled."""
        while True:
            while self._waiting:
                command, texts = self._waiting[0]
                reason = await self._reason(command.name, texts)
                self._waiting.popleft()
                if reason is None:
                    self._accept(command)
                else:
                    self._refuse(command, reason)
            await self._bell.wait()

    async def _reason(self, name: str, texts: list[tuple[str, str]]) -> str | None:
        if self._check is None:
            return None
        for field, text in texts:
            if (reason := await self._check(text, name, field)) is not None:
                return reason
        return None


def _moderated(command: Command, spec: CommandSpec) -> Iterator[tuple[str, str]]:
    for parameter in spec.arguments.parameters:
        if parameter.info.moderate:
            for text in _texts(command.arguments[parameter.name]):
                yield parameter.name, text


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, also those in its lists and tables."""
    if type(value) is str:
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
