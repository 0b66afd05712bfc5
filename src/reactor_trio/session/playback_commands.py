"""Messages of playback and of worlds as a session takes them: what a client may send now, and what all clients learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reactor_trio.crossing.messages import Rewound
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import Declaration, Sharing
from reactor_trio.lifecycle import Stepping
from reactor_trio.media import Bundle
from reactor_trio.protocol import WorldMoment, playback_arguments
from reactor_trio.session.attachment import Attachment
from reactor_trio.session.session_services import SessionServices

if TYPE_CHECKING:
    from reactor_trio.session.moment_pictures import MomentPictures

#: only the newest of consecutive rewinds is carried out
SHARING: Final[Mapping[str, Sharing]] = {"reactor.rewind": "consecutive"}
_OF_WORLDS: Final = frozenset({"reactor.rewind", "reactor.worlds"})


def checked_playback(declaration: Declaration, stepping: Stepping, name: str, data: bytes) -> dict[str, Any]:
    """Decode a message of playback. Raises CommandError, also if it is not allowed now."""
    if name in _OF_WORLDS:
        _check_worlds(declaration, name)
    elif name.removeprefix("reactor.") not in declaration.playback:
        allowed = ", ".join(declaration.playback) or "no transport"
        raise CommandError("not_allowed", f"{name}: this model allows {allowed}")
    arguments = playback_arguments(name, data)
    if name == "reactor.step" and not stepping.paused:
        raise CommandError("not_paused", "reactor.step: the session is not paused; send reactor.pause first")
    return arguments


def _check_worlds(declaration: Declaration, name: str) -> None:
    if declaration.world is None:
        why = f"{name}: this model saves no worlds; a model that does has `saves = Saves()` in its class"
        raise CommandError("not_saveable", why)
    if name.removeprefix("reactor.") not in ("worlds", *(may := declaration.world.saves.may)):
        allowed = ", ".join(may) or "nothing of the kind"
        raise CommandError("not_allowed", f"{name}: this model allows {allowed}")


def recorded_data(name: str, data: bytes, reply: bytes) -> bytes:
    """The data of an applied command for a recording: of a rewind the step where it landed, which a replay finds again."""
    if name != "reactor.rewind" or b"undo" in data:
        return data
    return msgspec.json.encode({"step": msgspec.json.decode(reply)["moment"]["step"]})


def moment_pictures(services: SessionServices, show: Callable[[Bundle], object]) -> MomentPictures:
    """What keeps the pictures of a new session's moments, for a model that saves its worlds."""
    from reactor_trio.session.moment_pictures import MomentPictures  # late: models without Saves import none of it

    return MomentPictures(services.worker, services.settings.worlds.pictures // services.placement.max_sessions, show)


def tell_moment(attachments: Mapping[int, Attachment], pictures: MomentPictures | None, message: Rewound) -> None:
    """Tell each client that understands it that the world is another: before the answer, and before a picture of it."""
    moment = WorldMoment(message.moment, message.age, message.size, pictures is not None and pictures.has(message.moment))
    data = {"step": message.step, "to": moment, "why": message.why}
    for attachment in attachments.values():
        if attachment.follows_worlds:
            attachment.say("reactor.moment", data)
    if pictures is not None:
        pictures.rewound(message)


def whole_reply(name: str, reply: bytes, pictures: MomentPictures | None) -> bytes:
    """The reply to a command, with what the model's side does not know: which moments have a picture."""
    if pictures is None or name not in _OF_WORLDS:
        return reply
    data = msgspec.json.decode(reply)
    if name == "reactor.worlds":
        data["bytes"] += pictures.bytes
        data["most"] += pictures.most_bytes
    for moment in (data.get("moment"), data.get("undo"), *data.get("moments", ())):
        if moment is not None:
            moment["picture"] = pictures.has(moment["step"])
    return msgspec.json.encode(data)
