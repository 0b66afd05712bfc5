"""What a client asks for in the query of `GET /ws`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from reactor_trio.admission import Claims
from reactor_trio.media import audio_codecs, choose_audio_codecs, choose_codecs, missing_hint, video_codecs
from reactor_trio.protocol.client_messages import MOST_NAME
from reactor_trio.transport import Refusal, Refused

PCM = "pcm_s16le"
#: digits of a message's number
MOST_DIGITS = 15


class ConnectRequest(msgspec.Struct, frozen=True):
    """What one client asks for.

    Attributes:
        video: the video codecs that both sides know, best first; empty for no video.
        tracks: the same for single video tracks by name, instead of `video`.
        audio: the same for sound.
        feedback: whether the client says that it will acknowledge frames; its window then holds from the first frame on.
        cadence: whether this is a viewer that understands `reactor.cadence`, which lets it acknowledge less often. The
            controlling client acknowledges each frame, since that tells how soon its commands are seen.
        claims: what the client's ticket says; the server fills it in.
        address: the address whose limits apply to the client; None if none do.
        after: number of the last message that the client has of the session that it comes back to.
        beat: whether the client wants `reactor.beat` when nothing else is sent.
        worlds: whether the client understands worlds that are rewound, see docs/reference/protocol.md.
        begins_at: the token of a fork, or the id of a saved world, at which its session is to begin; None: at the beginning.
    """

    role: Literal["control", "viewer"]
    video: tuple[str, ...]
    audio: tuple[str, ...] = (PCM,)
    feedback: bool = False
    claims: Claims = Claims()
    address: str | None = None
    after: int = 1
    tracks: dict[str, tuple[str, ...]] = {}
    beat: bool = False
    cadence: bool = False
    worlds: bool = False
    begins_at: str | None = None

    @property
    def control_only(self) -> bool:
        """Whether the client wants no output tracks at all. One that names a track may ask for its video later."""
        return not self.video and not self.tracks

    def __repr__(self) -> str:
        return f"ConnectRequest({self.role})"


def parse_connect_request(query: Mapping[str, str], name: str, tracks: Collection[str] = ()) -> ConnectRequest:
    """Read a connect request from the query of its URL.

    Args:
        query: of the URL.
        name: of the served model.
        tracks: the names of the model's output video tracks.

    Raises `transport.Refused`: 400 for a value of no use, 404 for another model's name.
    """
    if query.get("model", name) != name:
        raise Refused(Refusal("wrong_model", f"this server serves {name}, not {query['model']}"))
    role = query.get("role", "control")
    if role not in ("control", "viewer"):
        raise Refused(Refusal("bad_request", f"role: {role!r} is not one of control, viewer"))
    video = _codecs("video", query.get("video", "jpeg"), choose_codecs, video_codecs)
    audio = _codecs("audio", query.get("audio", PCM), choose_audio_codecs, audio_codecs)
    of_tracks = {key.removeprefix("video."): given for key, given in query.items() if key.startswith("video.")}
    if unknown := [track for track in of_tracks if track not in tracks]:
        has = ", ".join(tracks) or "none"
        why = f"video.{unknown[0]}: not an output video track of this model, which has: {has}"
        raise Refused(Refusal("bad_request", why))
    chosen = {track: _codecs(f"video.{track}", given, choose_codecs, video_codecs) for track, given in of_tracks.items()}
    if query.get("paused") == "1":
        chosen = dict.fromkeys(tracks, ()) | chosen
    feedback = query.get("feedback") == "1"
    after = query.get("after") or "1"
    if not (after.isascii() and after.isdigit() and len(after) <= MOST_DIGITS):
        raise Refused(Refusal("bad_request", "after: expected the number of the last message received, such as 17"))
    beat, cadence = query.get("beat") == "1", query.get("cadence") == "1"
    worlds = query.get("worlds") == "1"
    viewer = ConnectRequest("viewer", video, audio, feedback, tracks=chosen, beat=beat, cadence=cadence, worlds=worlds)
    if role == "viewer":
        return viewer
    begins_at = query.get("fork") or query.get("world")
    if begins_at is not None and len(begins_at) > MOST_NAME:
        raise Refused(Refusal("no_world", "fork: this is not the token of a saved world"))
    return replace(viewer, role="control", cadence=False, after=int(after), begins_at=begins_at)


def _codecs(
    kind: str, given: str, choose: Callable[[list[str]], tuple[str, ...]], known: Callable[[], tuple[str, ...]]
) -> tuple[str, ...]:
    wanted = [codec.strip() for codec in given.split(",")]
    if wanted == ["none"]:
        return ()
    if not (codecs := choose(wanted)):
        reason = f"this server encodes {', '.join(known())}, not {', '.join(wanted)}{missing_hint(wanted)}"
        raise Refused(Refusal("bad_request", f"{kind}: {reason}"))
    return codecs
