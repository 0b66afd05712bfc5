"""What a model says of its frames in a `TrackPayload`: checked, and copied as plain data."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import msgspec

from reactor_trio.errors import OutputError
from reactor_trio.interface.messages import plain


def metadata_of(track: str, given: object, videos: Container[str], length: int) -> list[Any]:
    """A copy of a track's metadata as plain data, one for each bundle; for empty bytes None. Raises OutputError."""
    if track not in videos:
        raise OutputError(f"track {track}: only a video track has metadata")
    each = given if isinstance(given, (list, tuple)) else [given] * length
    if len(each) != length:
        raise OutputError(f"track {track}: metadata of {len(each)} frames for {length} frames")
    for one in each:
        if not isinstance(one, (Mapping, bytes, type(None))):
            raise OutputError(f"track {track}: metadata of a frame is a mapping or bytes, not {type(one).__name__}")
    try:
        found = [(one or None) if isinstance(one, bytes) else plain(one, f"track {track}: metadata") for one in each]
        msgspec.msgpack.encode(found)  # it goes into the head of a packet, where an integer has 64 bits
    except (TypeError, OverflowError) as error:
        raise OutputError(str(error) if isinstance(error, TypeError) else f"track {track}: metadata: {error}") from None
    return found
