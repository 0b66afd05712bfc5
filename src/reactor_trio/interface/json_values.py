"""Values of settings as JSON: the form in which the runtime compares them and sends them to clients.

Empty bytes stand for a value that is left out, because it has no JSON form or is too large to send again and again.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from reactor_trio.interface.command_arguments import with_integers
from reactor_trio.interface.messages import json_default

#: bytes of JSON above which a value is left out
MOST_BYTES: Final = 64 * 1024

_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])


def json_of(value: Any) -> bytes:
    """Return `value` as JSON, or empty bytes if it is left out."""
    if _surely_too_large(value):
        return b""
    try:
        text = msgspec.json.encode(value, enc_hook=json_default)
        if len(text) > MOST_BYTES:
            return b""
        if b"null" in text and value is not None:  # msgspec writes NaN and the infinities as null
            json.dumps(msgspec.to_builtins(value, enc_hook=json_default, str_keys=True), allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""
    return text


def same_json(one: bytes, other: bytes) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, keys have no order. A value that is left out equals no value."""
    if not one or not other:
        return False
    try:
        return one == other or canonical_json(one) == canonical_json(other)
    except RecursionError:  # nested deeper than Python's recursion limit
        return False


def argument(data: bytes, name: str) -> bytes | None:
    """Return the JSON of a valid command's argument `name`: None if the client did not give it, empty if it is too large."""
    found = _arguments.decode(data).get(name)
    if found is None:
        return None
    text = bytes(found)
    return text if len(text) <= MOST_BYTES else b""


def canonical_json(text: bytes) -> bytes:
    """Return the one form of equal JSON values: sorted keys, no spaces, whole numbers as integers."""
    return msgspec.json.encode(with_integers(msgspec.json.decode(text)), order="deterministic")


def _surely_too_large(value: Any) -> bool:
    """Whether `value` is too large by its length alone: each item takes at least two bytes, each character one."""
    match value:
        case list() | tuple() | set() | frozenset() | dict():
            return 2 * len(value) > MOST_BYTES
        case str() | bytes() | bytearray():
            return len(value) > MOST_BYTES
    return False
