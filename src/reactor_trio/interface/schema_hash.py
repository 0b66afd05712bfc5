"""`schema_hash`: a short name for what a model declares, so that generated types can be compared with a running server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reactor_trio.interface.json_values import canonical_json

#: Hexadecimal digits of a schema's hash.
DIGITS: Final = 16

_DECLARED: Final = ("tracks", "commands", "messages")


def schema_hash(schema: Mapping[str, Any]) -> str:
    """Return the hash of a schema: 16 hexadecimal digits of the SHA-256 of its canonical JSON.

    The canonical JSON is `{"commands":[...],"messages":[...],"tracks":[...]}` in UTF-8, with sorted keys and no spaces, and
    with whole numbers as integers.

    Args:
        schema: the answer to `GET /schema`. The hash covers its `tracks`, `commands` and `messages`; other keys are ignored.
    """
    declared = {part: schema[part] for part in _DECLARED}
    return hashlib.sha256(canonical_json(msgspec.json.encode(declared))).hexdigest()[:DIGITS]
