"""Keys of a configuration that the model hardly means: its module does not have them, and reads others that are like them.

`load` takes a dict, so nothing declares its keys. They are found in the code, without running it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

from reactor_trio.interface.kinds import authors_classes
from reactor_trio.plain_text import similar

#: how like each other two names are, from 0 to 1, if one is a typo of the other
_ALIKE = 0.75


def unread_keys(model: type, config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each such key with the one that was meant, and `file:line` of the method that reads it."""
    for cls in authors_classes(model):
        for name in ("load", "__init__"):
            code = getattr(inspect.unwrap(vars(cls).get(name) or _nothing), "__code__", None)
            if code is None:
                continue
            try:
                words = set(re.findall(r"\w+", inspect.getsource(inspect.getmodule(code) or cls)))
            except (OSError, TypeError):  # a class without a file, as in a notebook
                continue
            read = [word for word in _words(code) if word in words and word not in config]
            for key in config:
                if key not in words and (near := similar(str(key), read, cutoff=_ALIKE)):
                    yield str(key), near, f"{code.co_filename}:{code.co_firstlineno}"


def _nothing() -> None:
    """Stands for a method that a class does not have."""


def _words(code: CodeType) -> Iterator[str]:
    """The texts of a function, and the names of attributes that it reads."""
    yield from code.co_names
    for value in code.co_consts:
        for each in value if isinstance(value, tuple | frozenset) else (value,):
            if isinstance(each, str):
                yield each
            elif isinstance(each, CodeType):
                yield from _words(each)
