"""Digests of data that a recording does not keep, by which a later run can be compared with it.

BLAKE2b with 16 bytes: different frames have different digests, and a megabyte takes about a millisecond.
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
    """The digest of a frame's values in row order, without its shape. Releases the GIL meanwhile."""
    return hashlib.blake2b(np.ascontiguousarray(frame).reshape(-1).data, digest_size=_SIZE).hexdigest()


def config_digest(config: Mapping[str, Any], salt: str) -> str | None:
    """The digest of a model's config, which may hold secrets; None if JSON cannot express the config.

    The salt is the session's id, so that two recordings do not reveal whether their configs are equal.
    """
    try:
        plain = msgspec.json.encode(dict(config), order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return None
    return hashlib.blake2b(plain, digest_size=_SIZE, key=salt.encode()[:64]).hexdigest()
