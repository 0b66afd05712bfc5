"""Messages of playback and of worlds as a session takes them: what a client may send now, and what all clients learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reactor_trio.configuration.settings import Settings
from reactor_trio.crossing.messages import Rewound
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import Sharing
from reactor_trio.lifecycle import Stepping
from reactor_trio.placement.placement import Placement
from reactor_trio.protocol import playback_arguments
from reactor_trio.session.session_services import SessionServices

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.session.session_worlds import SessionWorlds

#: only the newest of consecutive rewinds is carried out
SHARING: Final[Mapping[str, Sharing]] = {"reactor.rewind": "consecutive"}
#: the messages about worlds, and the permission that each needs
OF_WORLDS: Final[Mapping[str, str | None]] = {
    "reactor.rewind": "rewind", "reactor.save": "save", "reactor.restore": "save", "reactor.forget": "save",
    "reactor.fork": "fork", "reactor.worlds": None,
}  # fmt: skip


def checked_playback(
    services: SessionServices, worlds: SessionWorlds | None, stepping: Stepping, name: str, data: bytes
) -> dict[str, Any]:
    """Decode a message of playback. Raises CommandError, also if it is not allowed now."""
    declaration = services.placement.declaration
    if name in OF_WORLDS:
        _check_worlds(services.placement, services.settings, name)
    elif name.removeprefix("reactor.") not in declaration.playback:
        allowed = ", ".join(declaration.playback) or "no transport"
        raise CommandError("not_allowed", f"{name}: this model allows {allowed}")
    arguments = playback_arguments(name, data)
    if name == "reactor.step" and not stepping.paused:
        raise CommandError("not_paused", "reactor.step: the session is not paused; send reactor.pause first")
    if worlds is not None:
        worlds.admit(name)
    return arguments


def _check_worlds(placement: Placement, settings: Settings, name: str) -> None:
    declaration = placement.declaration
    if declaration.world is None:
        why = f"{name}: this model saves no worlds; a model that does has `saves = Saves()` in its class"
        raise CommandError("not_saveable", why)
    needed, may = OF_WORLDS[name], declaration.world.allowed(settings.worlds.allow)
    if not may or (needed is not None and needed not in may):
        allowed = ", ".join(may) or "nothing of the kind"
        raise CommandError("not_allowed", f"{name}: this model allows {allowed}")


def no_worlds(message: Rewound) -> None:
    """Take the message that says of a model without worlds that it has gone back, which is a fault of the runtime."""
    raise AssertionError(f"a model that saves no worlds has sent {message}")


def without_ids(name: str, data: bytes) -> bytes:
    """The data of a command for a recording, in which no id of a world may stand: whoever has it may have the world."""
    return b"{}" if OF_WORLDS.get(name) in ("save", "fork") else data

