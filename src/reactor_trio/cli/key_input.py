"""A line editor for the live view: it reads single keys from the terminal while the screen around the line is redrawn."""

from __future__ import annotations

import codecs
import os
import re
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import trio

#: One key: the escape sequence of an arrow or of another key without a character, or a character.
_KEY = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|)|(?s:.)")
#: The beginning of an escape sequence, whose rest the next read may bring; no key's is longer than this allows.
_BEGUN = re.compile(r"\x1b(?:\[[0-9;?]{0,30}[ -/]{0,2}|O)?\Z")
#: Steps in the history, by the sequences of the up and down arrows.
_STEPS = {"\x1b[A": -1, "\x1bOA": -1, "\x1b[B": 1, "\x1bOB": 1}
_LONGEST = 1000
_REMEMBERED = 50

_LOCAL_MODES, _CONTROL_CHARACTERS = 3, 6


@contextmanager
def key_by_key(stream: TextIO) -> Iterator[int | None]:
    """Switch the terminal to single keys without echo for a block. Yields its descriptor; None if `stream` is no terminal.

    Ctrl-C still sends its signal. Ctrl-Z does not: a stopped program would leave the shell with this terminal mode.
    """
    if not stream.isatty():
        yield None
        return
    fd = stream.fileno()
    before = termios.tcgetattr(fd)
    modes = termios.tcgetattr(fd)
    modes[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    modes[_CONTROL_CHARACTERS][termios.VSUSP] = os.fpathconf(fd, "PC_VDISABLE").to_bytes(1, "little")
    try:
        termios.tcsetattr(fd, termios.TCSANOW, modes)
        yield fd
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


async def read_keys(fd: int, line: KeyLine) -> None:
    """Pass typed characters to `line` until the terminal closes. Cancellation loses no key."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        await trio.lowlevel.wait_readable(fd)
        try:
            data = os.read(fd, 1024)
        except OSError:  # the terminal was closed
            return
        if not data:
            return
        line.type(decoder.decode(data))


class KeyLine:
    """One editable line with a history. Backspace, Ctrl-U and the up and down arrows work as in a shell.

    Args:
        entered: called with each non-empty line when Enter is pressed.
        changed: called after each input.

    Attributes:
        text: the text typed so far.
    """

    def __init__(self, entered: Callable[[str], object], changed: Callable[[], object]) -> None:
        self.text = ""
        self._entered = entered
        self._changed = changed
        self._before: list[str] = []
        self._at = 0
        self._begun = ""

    def type(self, keys: str) -> None:
        """Apply characters and escape sequences that the terminal sent. A sequence may come in several parts."""
        keys = self._begun + keys
        begun = _BEGUN.search(keys)
        keys, self._begun = (keys, "") if begun is None else (keys[: begun.start()], begun[0])
        for key in _KEY.findall(keys):
            self._key(key)
        self._changed()

    def _key(self, key: str) -> None:
        if key in "\r\n":
            line, self.text = self.text.strip(), ""
            if line:
                self._before = [*self._before, line][-_REMEMBERED:]
                self._at = len(self._before)
                self._entered(line)
        elif key in "\x7f\b":
            self.text = self.text[:-1]
        elif key == "\x15":
            self.text = ""
        elif key in _STEPS:
            self._at = min(max(self._at + _STEPS[key], 0), len(self._before))
            self.text = [*self._before, ""][self._at]
        elif key.isprintable() and len(self.text) < _LONGEST:
            self.text += key
