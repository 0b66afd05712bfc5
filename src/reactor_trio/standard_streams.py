"""The standard streams of a process that is ours: output is optional, so to write it never fails.

The reader of a stream may leave (`| head`, a terminal that is closed), its disk may be full, or the stream may be closed
from the start. A server goes on then, and so must each `print()` of the model. A command that must lose nothing asks `lost`.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class _OptionalFile(io.FileIO):
    """A descriptor that takes all bytes, also those that it cannot write.

    Attributes:
        lost: why it could not write some; None if it has written all.
    """

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
        except OSError as error:
            self.lost = self.lost or error
            return len(data)
        if written is None:  # a pipe that does not block, and is full
            self.lost = self.lost or BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return len(data)
        return written


@contextmanager
def optional_output() -> Iterator[None]:
    """Let nothing that is written to `sys.stdout` and `sys.stderr` in this block fail. Closed standard streams become open.

    A stream that is not the process's own, such as that of a notebook, stays as it is.
    """
    before = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    ours = {}
    for number, (name, stream) in enumerate(before.items()):
        if stream is None:
            ours[name] = _opened(number, name)
        elif name != "stdin" and isinstance(raw := _raw(stream), io.FileIO) and raw.fileno() == number:
            with suppress(OSError):
                stream.flush()
            ours[name] = _optional(number, name, stream)
    vars(sys).update(ours)
    try:
        yield
    finally:
        for name, stream in ours.items():
            stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])


def lost(stream: TextIO) -> OSError | None:
    """Return why something that was written to this stream is lost; None if nothing is, as far as that is known."""
    raw = _raw(stream)
    return raw.lost if isinstance(raw, _OptionalFile) else None


def _opened(number: int, name: str) -> TextIO:
    """Open the null device for reading, in place of a closed standard stream: to read it ends, to write it is an error.

    It takes the number of the closed stream, which the next socket would get otherwise, and then what a child prints.
    """
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, descriptor == number)
    return open(descriptor, encoding="utf-8", closefd=False) if number == 0 else _optional(descriptor, name)


def _optional(descriptor: int, name: str, like: TextIO | None = None) -> TextIO:
    raw = _OptionalFile(descriptor, "w", closefd=False)
    raw.name = f"<{name}>"  # as Python names it
    unbuffered = like is not None and isinstance(like.buffer, io.FileIO)  # python -u
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", "utf-8"), errors=getattr(like, "errors", "backslashreplace"),
        line_buffering=getattr(like, "line_buffering", True), write_through=unbuffered,
    )  # fmt: skip


def _raw(stream: TextIO) -> object:
    buffer = getattr(stream, "buffer", None)
    return getattr(buffer, "raw", buffer)
