"""Commands that must be prepared before the model may have them.

A command that names uploaded files, or text that a moderation hook must see, waits until the files are read and the text is
checked. The commands that come after it wait behind it, so their order stays.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import trio

from reactor_trio.concurrency import FailureLog
from reactor_trio.crossing.messages import Command
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import CommandSpec
from reactor_trio.interface.files import UploadedFile
from reactor_trio.placement.placement import Check
from reactor_trio.plain_text import sendable
from reactor_trio.session.upload_store import UploadStore

log = logging.getLogger("reactor_trio.session")

#: Texts of one command that a moderation hook checks at most. `limits.text_message` bounds their bytes.
MOST_TEXTS = 64

#: Awaited before a command goes on; raises CommandError to refuse it, and nothing else.
Preparation = Callable[[], Awaitable[None]]


class CommandPreparer:
    """Prepares the commands of one session, on the I/O loop.

    `CommandLedger` bounds how many commands of the client may wait, `UploadStore` how many calls of `@file_uploaded`.
    """

    def __init__(self) -> None:
        self._to_prepare, self._waiting = trio.open_memory_channel[tuple[Command, Sequence[Preparation]]](math.inf)
        self._count = 0  # commands that wait, and the one that is prepared now

    def __len__(self) -> int:
        return self._count

    def add(self, command: Command, preparations: Sequence[Preparation]) -> None:
        """Prepare a command, behind those that wait; drop it if the session is over."""
        with suppress(trio.BrokenResourceError):
            self._to_prepare.send_nowait((command, preparations))
            self._count += 1

    async def run(
        self, post: Callable[[Command], object], refused: Callable[[Command, CommandError], object]
    ) -> None:
        """Task: prepare the commands, one after the other; until cancelled.

        Args:
            post: hands a prepared command to the model's side.
            refused: called with a command that a preparation refused; it goes no further.
        """
        with self._waiting:
            async for command, preparations in self._waiting:
                try:
                    for prepare in preparations:
                        await prepare()
                except CommandError as error:
                    refused(command, error)
                else:
                    post(command)
                self._count -= 1


def moderations(check: Check | None, spec: CommandSpec, arguments: dict[str, Any]) -> list[Preparation]:
    """The check of the command's texts, in arguments declared with `moderate=True`; none without a `check`.

    Raises CommandError if there are more than `MOST_TEXTS`.
    """
    if check is None:
        return []
    marked = [parameter.name for parameter in spec.arguments.parameters if parameter.info.moderate]
    found = checked(spec.name, ((name, text) for name in marked for text in _texts(arguments[name])))
    return [partial(moderate, check, spec.name, found)] if found else []


def checked(command: str, texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The texts that a moderation hook is to see, each with its argument. Raises CommandError beyond `MOST_TEXTS`."""
    first = list(islice(texts, MOST_TEXTS + 1))
    if len(first) > MOST_TEXTS:
        raise CommandError("moderated", f"{command}: more than {MOST_TEXTS} texts to check in one command; send fewer")
    return first


async def moderate(check: Check, command: str, texts: Sequence[tuple[str, str]]) -> None:
    """Ask the moderation hook about these texts of a command. Raises CommandError if it refuses one."""
    if (reason := await check(command, texts)) is not None:
        raise CommandError("moderated", reason)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, also those in its lists, sets, tables and classes with fields. Files have none."""
    if type(value) is str:
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    else:
        for name in getattr(value, "__struct_fields__", ()) or getattr(value, "__dataclass_fields__", ()):
            yield from _texts(getattr(value, name, None))  # its `__post_init__` may have deleted it


def undecoded(command: str, error: Exception, failures: FailureLog, session: str, debug: bool) -> CommandError:
    """The refusal of arguments whose decoding raised; an exception of the author's `__post_init__` is logged."""
    if isinstance(error, CommandError):
        return error
    why = f"the arguments of {command} cannot be decoded: a class of the model raised"
    failures.log(log, error, "session %s: %s", session, why)
    told = f"{type(error).__name__}: {sendable(error)}" if debug else "an exception"
    return CommandError("invalid_command", f"{why} {told}")


def find_file(uploads: UploadStore | None, found: dict[str, UploadedFile], upload_id: str) -> UploadedFile:
    """Return the uploaded file with this id, and note it in `found`. Raises LookupError."""
    if uploads is None:
        raise LookupError
    return found.setdefault(upload_id, uploads.find(upload_id))


async def load_file(uploads: UploadStore | None, session: str, command: str, file: UploadedFile) -> None:
    """Read an uploaded file that a command of the session names. Raises CommandError if that cannot be."""
    assert uploads is not None, "a model that takes no files has no such command"
    try:
        await uploads.load(file)
    except (OSError, MemoryError) as error:
        log.error("session %s: a file of %s cannot be read", session, command, exc_info=error)
        raise CommandError("unresolved_upload", f"the file cannot be read: {str(error) or 'no memory'}") from error
