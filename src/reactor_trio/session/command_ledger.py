"""The controlling client's commands that have no answer yet: how many there may be, and what becomes of each.

    admit -> add -> take      answered: applied, or refused on its way
       '-> refused  '-> discard   the session ended before it came to them

Each command that was admitted or refused is told to the server once, as a `CommandRecord`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from reactor_trio.errors import CommandError
from reactor_trio.execution.session_events import Answer
from reactor_trio.interface.declaration import Sharing
from reactor_trio.session.attachment import Flood, Journal
from reactor_trio.telemetry import CommandRecord

#: Code of a command that the session did not come to, for the record.
SESSION_OVER: Final = "session_over"


@dataclass(slots=True)
class LedgerEntry:
    """A command on its way.

    Attributes:
        number: counts the session's commands from 1; 0: it was refused as it came.
        place: number of the first command that takes the same place in the order; its own if it takes one alone.
        data: as it was sent, if a journal will ask.
        at: when it came, in `trio.current_time()` seconds.
        sets: the setting that its client sets with it, and to what, as JSON; None: none.
    """

    number: int
    name: str
    id: int | None
    place: int
    data: bytes
    at: float
    traceparent: str | None
    sets: tuple[str, bytes] | None = None

    def enter(self, journal: Journal, answer: Answer) -> None:
        """Write down what became of it."""
        if answer.code is None:
            superseded = self.number != max(answer.numbers)
            journal.commanded(self.name, self.data, self.id, answer.step, superseded)
        else:
            journal.refused(self.name, self.data, self.id, answer.code, answer.message)


class CommandLedger:
    """The commands of one session that have no answer yet, in order. On the I/O loop; no method waits.

    Args:
        session_id, client: whose they are, for the record.
        per_second: commands that may come in a second, and at once after a pause.
        pending: places in the order that may be taken; commands that share one count once.
        most: commands that may be unanswered.
        over: told of each command that is over.
    """

    def __init__(
        self,
        session_id: str,
        client: int,
        *,
        per_second: float,
        pending: int,
        most: int,
        over: Callable[[CommandRecord], None],
    ) -> None:
        self._session_id = session_id
        self._client = client
        self._per_second = per_second
        self._pending = pending
        self._most = most
        self._over = over
        self._commands: deque[LedgerEntry] = deque()
        self._numbers = 0
        self._places = 0
        self._allowance = per_second
        self._allowance_at = trio.current_time()

    def admit(self) -> None:
        """A command has come. Raises Flood if too many are unanswered, CommandError if too many come in a second."""
        if len(self._commands) >= self._most:
            raise Flood
        rate, now = self._per_second, trio.current_time()
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        if self._allowance < 1:
            raise CommandError("busy", f"more than {rate:g} commands a second")
        self._allowance -= 1

    def add(
        self, name: str, data: bytes, id: int | None, traceparent: str | None, sharing: Sharing  # noqa: A002
    ) -> LedgerEntry:
        """A valid command waits for its answer from now on. Raises CommandError if too many places are taken.

        `sharing`: which commands of its name take one place, as in `CommandQueue`.
        """
        place = self._shared_place(name, sharing)
        if place is None and self._places >= self._pending:
            raise CommandError("busy", f"{self._places} commands are pending; wait for their answers")
        self._numbers += 1
        self._places += place is None
        command = LedgerEntry(
            self._numbers, name, id, self._numbers if place is None else place, data, trio.current_time(), traceparent
        )
        self._commands.append(command)
        return command

    def _shared_place(self, name: str, sharing: Sharing) -> int | None:
        match sharing:
            case "none":
                return None
            case "consecutive":
                last = self._commands[-1] if self._commands else None
                return last.place if last is not None and last.name == name else None
            case "anywhere":
                return next((command.place for command in reversed(self._commands) if command.name == name), None)

    def refused(self, name: str, id: int | None, traceparent: str | None, code: str) -> None:  # noqa: A002
        """A command was refused as it came, by `admit`, `add`, or what stands between them."""
        self._record(LedgerEntry(0, name, id, 0, b"", trio.current_time(), traceparent), 0, code)

    def take(self, answer: Answer) -> list[LedgerEntry]:
        """The commands that `answer` answers, in order; they are over, and their places free."""
        numbers = set(answer.numbers)
        taken = [command for command in self._commands if command.number in numbers]
        self._commands = deque(command for command in self._commands if command.number not in numbers)
        self._places = len({command.place for command in self._commands})
        for command in taken:
            self._record(command, answer.step, answer.code)
        return taken

    def discard(self) -> None:
        """The session is over: nobody answers what is left."""
        for command in self._commands:
            self._record(command, 0, SESSION_OVER)
        self._commands.clear()

    def _record(self, command: LedgerEntry, step: int, code: str | None) -> None:
        self._over(CommandRecord(
            self._session_id, self._client, command.name, command.id, command.at, trio.current_time(), step, code,
            command.traceparent,
        ))  # fmt: skip
