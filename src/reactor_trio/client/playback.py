"""Playback, for programs `client.playback`: pause the model of a session, step it, and restart it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from reactor_trio.client.session_protocol import SessionProtocol


class TransportControl:
    """The controls of a session's model. Each call returns when the model has taken it.

    A call that the session does not allow raises CommandError with code `not_allowed`, `step` of a session that is not
    paused one with code `not_paused`; both raise SessionEnded as `Client.command` does.
    """

    def __init__(self, protocol: SessionProtocol, command: Callable[..., Awaitable[Any]]) -> None:
        self._protocol = protocol
        self._command = command

    @property
    def allowed(self) -> tuple[str, ...]:
        """Which of `"pause"`, `"step"` and `"restart"` this client may do; none for a viewer, and for some models."""
        return () if self._protocol.welcome is None else self._protocol.welcome.transport

    @property
    def paused(self) -> bool:
        """Whether the session is paused, also for a viewer. `observe` sees each change, as a `TransportChanged`."""
        return self._protocol.paused

    async def pause(self) -> None:
        """Hold the picture at once, and let no further step begin. Commands are still applied, and time limits count on."""
        await self._command("reactor.pause", paused=True)

    async def resume(self) -> None:
        """Go on after `pause`."""
        await self._command("reactor.pause", paused=False)

    async def step(self, steps: int = 1) -> None:
        """Make `steps` steps, 1 to 1000, of the paused model. Returns before they are made; their frames follow."""
        await self._command("reactor.step", steps=steps)

    async def restart(self, state: Literal["kept", "fresh"] = "kept") -> None:
        """Start a new generator of the model. `fresh` sets the settings to their defaults, `kept` leaves them."""
        await self._command("reactor.restart", state=state)
