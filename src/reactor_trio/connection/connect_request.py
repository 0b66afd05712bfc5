"""What a client asks for in the query of `GET /ws`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from reactor_trio.admission import Claims
from reactor_trio.media import audio_codecs, choose_audio_codecs, choose_codecs, missing_hint, video_codecs

ROLES = ("control", "viewer")
PCM = "pcm_s16le"
#: of a message's number
MOST_DIGITS = 15


class ConnectRequest(msgspec.Struct, frozen=True):
    """The client's wishes.

    Attributes:
        video: the codecs that both sides know, best first; empty for control only.
        audio: the same for sound; empty for none.
        token: the share token with which it wants to watch, None if it shows none.
        feedback: whether it says that it will acknowledge frames, so that it has a window from the first one on.
        claims: what it has shown of itself.
        address: the address whose limits it shares; None if it has none.
        resume: the token of the session that it comes back to, None if it begins a new one.
        after: number of the last message that it has of that session.
    """

    role: Literal["control", "viewer"]
    video: tuple[str, ...]
    audio: tuple[str, ...] = (PCM,)
    token: str | None = None
    feedback: bool = False
    claims: Claims = Claims()
    address: str | None = None
    resume: str | None = None
    after: int = 1

    def __repr__(self) -> str:
        return f"Hello({self.role})"  # the tokens are secrets


class ConnectRequestRefused(Exception):
    """The wishes cannot be met; an HTTP status and a line that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def parse_connect_request(query: Mapping[str, str], name: str) -> ConnectRequest:
    """The client's wishes. Raises ConnectRequestRefused: 400 for what is not understood, 404 for another model's name."""
    if query.get("model", name) != name:
        raise ConnectRequestRefused(404, f"this server serves {name}, not {query['model']}")
    role = query.get("role", "control")
    if role not in ROLES:
        raise ConnectRequestRefused(400, f"role: {role!r} is not one of control, viewer")
    wanted = [codec.strip() for codec in query.get("video", "jpeg").split(",")]
    video = () if wanted == ["none"] else choose_codecs(wanted)
    if not video and wanted != ["none"]:
        known = ", ".join(video_codecs())
        raise ConnectRequestRefused(
            400, f"video: this server encodes {known}, not {', '.join(wanted)}{missing_hint(wanted)}"
        )
    audio = [codec.strip() for codec in query.get("audio", PCM).split(",")]
    sound = () if audio == ["none"] else choose_audio_codecs(audio)
    if not sound and audio != ["none"]:
        known = ", ".join(audio_codecs())
        raise ConnectRequestRefused(400, f"audio: this server encodes {known}, not {', '.join(audio)}{missing_hint(audio)}")
    token, feedback = query.get("token") or None, query.get("feedback") == "1"
    after = query.get("after") or "1"
    if not (after.isascii() and after.isdigit() and len(after) <= MOST_DIGITS):
        raise ConnectRequestRefused(400, "after: expected the number of the last message received, such as 17")
    resume = query.get("resume") or None
    if role == "viewer":
        return ConnectRequest("viewer", video, sound, token, feedback)
    return ConnectRequest("control", video, sound, token, feedback, resume=resume, after=int(after))
