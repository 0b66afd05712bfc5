"""The data of the runtime's messages that a client sends: what the server decodes, and the AsyncAPI document describes."""

from __future__ import annotations

from typing import Annotated

import msgspec

#: codecs, best first, or `["none"]`
CodecList = Annotated[list[Annotated[str, msgspec.Meta(max_length=32)]], msgspec.Meta(min_length=1, max_length=16)]


class Keyframe(msgspec.Struct):
    """Data of `reactor.keyframe`, in both directions."""

    track: int


class Feedback(msgspec.Struct):
    """Data of `reactor.feedback`."""

    track: int
    seq: int
    held_us: Annotated[int, msgspec.Meta(ge=0, le=60_000_000)] | None = None


class VideoChoice(msgspec.Struct):
    """Data of `reactor.video`. `tracks` has the codecs of single tracks by name; all others use `video`."""

    video: CodecList
    tracks: dict[str, CodecList] = {}
