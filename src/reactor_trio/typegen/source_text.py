"""Names, strings and comments as source text. Authors wrote them, so nothing in them may end its place or hide text.

What is escaped is a fixed list of characters. It must not depend on the Unicode version of the Python that runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: controls, separators of lines, invisible and direction-changing characters, surrogates
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000ffffe-\U000fffff"
    "\U0010fffe-\U0010ffff]"
)
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")


def quoted(text: str, wide: str) -> str:
    """Return `text` as a string literal between double quotes.

    Args:
        wide: how the language writes a character above U+FFFF, for `str.format` with its number.
    """
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{visible(plain, wide)}"'


def remark(text: str) -> str:
    """Return `text` in one line for a comment between `/*` and `*/`.

    It has no line end, no `*/` and no `@` that begins a word: compilers and linters obey such words in comments.
    """
    line = visible(" ".join(text.split()), "U+{:X}")
    return re.sub(r"(?<!\w)@", r"\\@", line.replace("*/", "*\\/"))


def visible(text: str, wide: str) -> str:
    """Return `text` with an escape for each character that cannot be seen; `wide` as for `quoted`."""

    def escape(found: re.Match[str]) -> str:
        point = ord(found[0])
        return f"\\u{point:04x}" if point < 0x10000 else wide.format(point)

    return _UNSEEN.sub(escape, text)


def type_name(name: str, otherwise: str) -> str:
    """Return `name` as the name of a type, such as `HttpStatus` for `http_status`.

    It has ASCII letters and digits only. It begins with an upper-case letter, as no keyword of TypeScript does, and few of
    Python. `otherwise` is the name, or its beginning, if `name` has no letter to begin with.
    """
    text = "".join(word[0].upper() + word[1:] for word in _WORDS.findall(name))
    return text if text[:1].isalpha() else otherwise + text


def value_name(name: str) -> str:
    """Return the name of a value for the name of a type: `HttpStatus` -> `httpStatus`, `GPT` -> `gpt`."""
    head = re.match(r"[A-Z0-9]+(?![a-z])|[A-Z]", name)
    length = len(head[0]) if head else 0
    return name[:length].lower() + name[length:]


class Names:
    """Gives out names so that each is given once.

    Args:
        taken: names that are never given.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def take(self, name: str) -> str:
        """Return `name`, or `name` with the first free number from 2."""
        free, number = name, 1
        while free in self._taken:
            number += 1
            free = f"{name}{number}"
        self._taken.add(free)
        return free
