"""The controlling client's unanswered commands: how many there may be, which supersede each other, how each one ends.

    admit -> add -> take      answered: applied, or refused by a preparation
       '-> refused  '-> discard   the session ended first

Each command that was admitted or refused is reported to the server once, as a `CommandRecord`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio

from reactor_trio.admission import TokenBucket
from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.messages import Answer, Command
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import Sharing
from reactor_trio.interface.files import UploadedFile
from reactor_trio.session.attachment import Flood
from reactor_trio.telemetry import CommandRecord

#: Code of a command that the session ended before, for the record.
SESSION_OVER: Final = "session_over"
#: bytes of JSON that the unanswered commands may have together; a single command may have more
MOST_JSON = 16 * 1024 * 1024


class CommandLedger:
    """The unanswered commands of one session, in order, on the I/O loop. No method waits.

    Args:
        session_id, client: whose they are, for the record.
        settings: commands that may come in a second, and at once after a pause; groups of commands that may be pending
            (`Command.group`); commands that may be unanswered; bytes of the files that these name,
            where a file counts once for each command, since each carries it to a model in another process.
        over: called with each command that is over.
    """

    def __init__(
        self, session_id: str, client: int, settings: Settings, over: Callable[[CommandRecord], None]
    ) -> None:
        self._session_id = session_id
        self._client = client
        self._limits = limits = settings.limits
        self._over = over
        self._file_bytes = settings.uploads.total_size
        self._commands: deque[Command] = deque()
        self._json = 0  # bytes of all of them
        self._numbers = 0
        self._allowance = TokenBucket(limits.commands_per_second, 1.0, trio.current_time())

    def admit(self) -> None:
        """Count a command that comes. Raises Flood if too many are unanswered, CommandError if too many come in a second."""
        if len(self._commands) >= self._limits.unanswered_commands:
            raise Flood
        if self._allowance.take(trio.current_time()):
            raise CommandError("busy", f"more than {self._limits.commands_per_second:g} commands a second")

    def add(
        self,
        name: str,
        arguments: dict[str, Any],
        data: bytes,
        files: dict[str, UploadedFile],
        id: int | None,  # noqa: A002
        traceparent: str | None,
        sharing: Sharing,
        shown_step: int = -1,
    ) -> Command:
        """Make a `Command`, which is unanswered from now on. Raises CommandError if too many groups are pending.

        `sharing`: which commands of its name may share a group. `shown_step`: see `Command`.
        """
        group = self._shared_group(name, sharing)
        most = self._limits.pending_commands
        if group is None and (taken := len({command.group for command in self._commands})) >= most:
            raise CommandError("busy", f"{taken} commands are pending; wait for their answers")
        self._check_room(len(data), _size_of(files))
        number = self.next_number()
        command = Command(
            number, self._client, name, arguments, id, trio.current_time(), data, files,
            number if group is None else group, traceparent, shown_step,
        )  # fmt: skip
        self._commands.append(command)
        self._json += len(data)
        return command

    def _check_room(self, json: int, files: int) -> None:
        """Raise CommandError if the unanswered commands are too large together with a new one."""
        if not self._commands:
            return
        if self._json + json > MOST_JSON:
            raise CommandError("busy", f"the pending commands have more than {MOST_JSON >> 20} MiB; wait for their answers")
        if files and files + sum(_size_of(command.files) for command in self._commands) > self._file_bytes:
            most = f"{self._file_bytes} bytes (runtime.uploads.total_size)"
            raise CommandError("busy", f"the files of the pending commands have more than {most}; wait for their answers")

    def next_number(self) -> int:
        """The number of a new command; also of an upload, which no answer follows."""
        self._numbers += 1
        return self._numbers

    def _shared_group(self, name: str, sharing: Sharing) -> int | None:
        """The group of an unanswered command that a new command of this name supersedes; None: it gets its own.

        A `set_<field>` supersedes the command before it if that sets the same field. A `dedupe` event supersedes the newest
        of its name, whatever came in between. If the model has applied that command already, its group is empty: the
        new command is then alone in it.
        """
        match sharing:
            case "consecutive":
                last = self._commands[-1] if self._commands else None
                return last.group if last is not None and (last.name, last.number) == (name, self._numbers) else None
            case "anywhere":
                return next((command.group for command in reversed(self._commands) if command.name == name), None)
        return None

    def refused(self, name: str, id: int | None, traceparent: str | None, code: str) -> None:  # noqa: A002
        """Report a command that was refused as it came, by `admit`, `add`, or between them."""
        self._record(name, id, trio.current_time(), traceparent, 0, code)

    def take(self, answer: Answer) -> list[Command]:
        """Remove the commands that `answer` answers; returns them in order."""
        numbers = set(answer.numbers)
        taken = [command for command in self._commands if command.number in numbers]
        self._commands = deque(command for command in self._commands if command.number not in numbers)
        for command in taken:
            self._json -= len(command.data)
            self._record(command.name, command.id, command.at, command.traceparent, answer.step, answer.code)
        return taken

    def discard(self) -> None:
        """Report the commands that are left as over, because the session is."""
        for command in self._commands:
            self._record(command.name, command.id, command.at, command.traceparent, 0, SESSION_OVER)
        self._commands.clear()

    def _record(
        self, name: str, id: int | None, at: float, traceparent: str | None, step: int, code: str | None  # noqa: A002
    ) -> None:
        self._over(CommandRecord(
            self._session_id, self._client, name, id, at, trio.current_time(), step, code, traceparent
        ))  # fmt: skip


def _size_of(files: dict[str, UploadedFile]) -> int:
    return sum(file.size for file in files.values())
