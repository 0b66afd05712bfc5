"""What a recording keeps of things that it does not keep: enough to say whether something is the same.

BLAKE2b with 16 bytes: no two different frames have one, and it takes about a millisecond for a megabyte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

_SIZE = 16


def frame_digest(frame: npt.NDArray[Any]) -> str:
    """Of a frame's values in row order; not of its shape. Lets other threads run meanwhile."""
    return hashlib.blake2b(np.ascontiguousarray(frame).reshape(-1).data, digest_size=_SIZE).hexdigest()


def config_digest(config: Mapping[str, Any], salt: str) -> str | None:
    """Of a model's config, which may hold secrets; None if it holds what JSON has not.

    The salt is the session's id, so that two recordings do not say that their configs are equal.
    """
    try:
        plain = msgspec.json.encode(dict(config), order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.blake2b(plain, digest_size=_SIZE, key=salt.encode()[:64]).hexdigest()
