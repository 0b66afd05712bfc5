"""Worlds, for programs `client.worlds`: go back to an earlier moment of a session, save its world, and restore it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from reactor_trio.client.http_request import Get
from reactor_trio.client.moment_picture import moment_picture
from reactor_trio.client.receiver import Receiver
from reactor_trio.protocol import WorldInStore, WorldList, WorldMoment


class WorldFork(msgspec.Struct, frozen=True):
    """Lets another session begin at a world.

    Attributes:
        token: what to connect with.
        expires: until when, in seconds since 1970.
    """

    token: str
    expires: float


class WorldControl:
    """The worlds of a session. Each call returns when the model has carried it out.

    A call that is refused raises CommandError: with code `not_saveable` if the model saves no worlds, `not_allowed` if it
    allows this to no client or this client watches, `no_moment` if no such moment is kept, `cannot_save` and
    `restore_failed` if the model's code has made it impossible. All raise SessionEnded as `Client.command` does.
    """

    def __init__(self, receiver: Receiver, command: Callable[..., Awaitable[Any]], get: Get | None) -> None:
        self._receiver = receiver
        self._command = command
        self._get = get

    @property
    def may(self) -> tuple[str, ...]:
        """What this client may do with the worlds, such as `"rewind"`; empty for a viewer, and if the model saves none."""
        welcome = self._receiver.protocol.welcome
        return () if welcome is None or not welcome.worlds else welcome.worlds.may

    @property
    def lasting(self) -> bool:
        """Whether the server has a store, so that saved worlds outlive their session."""
        welcome = self._receiver.protocol.welcome
        return False if welcome is None or not welcome.worlds else welcome.worlds.lasting

    async def rewind(
        self, *, step: int | None = None, steps: int | None = None, seconds: float | None = None
    ) -> WorldMoment:
        """Go back to the newest kept moment at or before the one that is named; returns the moment where it landed.

        Args:
            step: number of a step.
            steps, seconds: so far back from the picture that is shown, in the world's own time; where nothing that old is
                kept, to the oldest moment.

        Exactly one of them is given. The numbers of frames and steps go on; `observe` sees a `WorldChanged`.
        """
        given = {"step": step, "steps": steps, "seconds": seconds}
        return await self._rewind({name: value for name, value in given.items() if value is not None})

    async def undo(self) -> WorldMoment:
        """Take the newest rewind back, within 60 s; returns the moment where it landed."""
        return await self._rewind({"undo": True})

    async def list(self) -> WorldList:
        """Return the moments that are kept, those ahead of a rewind included, and what they need."""
        return msgspec.convert(await self._command("reactor.worlds"), WorldList)

    async def save(self, name: str = "", *, step: int | None = None) -> WorldInStore:
        """Save the world as it is between two steps; returns when it is in the server's store, with the id to restore it.

        Args:
            name: what to call it.
            step: save the newest kept moment at or before this step instead.

        Whoever has the id may restore the world, unless clients have names: then only their own. Raises CommandError also
        with code `cannot_save`, `too_many`, `too_big`, `busy` while another save is under way, and `store_failed`.
        """
        given = {"name": name} | ({} if step is None else {"step": step})
        world = msgspec.convert((await self._command("reactor.save", **given))["world"], WorldInStore)
        await self._stored(world.id)
        return world

    async def restore(self, id: str) -> WorldMoment:  # noqa: A002 - the wire's word
        """Go on from a saved world, of this session or another; returns its moment. `undo` takes it back, within 60 s.

        Raises CommandError also with code `no_such_world`, `foreign_world`, `old_world`, `damaged_world` and `store_failed`.
        """
        reply = await self._command("reactor.restore", world=id)
        return msgspec.convert(reply["moment"], WorldMoment)

    async def fork(self, *, step: int | None = None, world: str | None = None, seconds: float | None = None) -> WorldFork:
        """Make a token with which another session may begin at this world: `connect(url, fork=fork.token)`.

        Args:
            step: at the newest kept moment at or before this step.
            world: at this saved world instead.
            seconds: for which the token is good, a day unless given, and `runtime.worlds.keep` at most.

        Without `step` and `world` it begins at the world as it is between two steps. Returns when the world is stored.
        Whoever has the token may begin there as often as they like. Raises CommandError as `save` and `restore`.
        """
        given = {"step": step, "world": world, "seconds": seconds}
        reply = await self._command("reactor.fork", **{name: value for name, value in given.items() if value is not None})
        await self._stored(reply["fork"])
        return WorldFork(reply["fork"], reply["expires"])

    async def forget(self, id: str) -> None:  # noqa: A002 - the wire's word
        """Delete a saved world."""
        await self._command("reactor.forget", world=id)

    async def _stored(self, id: str) -> None:  # noqa: A002
        saving = self._receiver.saving(id)
        await saving.done.wait()
        if saving.error is not None:
            raise saving.error

    async def picture(self, step: int, *, width: Literal[160, 320] = 160) -> bytes:
        """Return the picture of a moment, a JPEG file of at most this width.

        It is the newest that was shown at or before the step. Raises CommandError: with code `no_moment` if none is kept.
        Raises ConnectionRefused for another refusal, with its HTTP status, and OSError if the connection broke.
        """
        welcome = self._receiver.protocol.welcome
        return await moment_picture(self._get, None if welcome is None else welcome.worlds or None, step, width)

    async def _rewind(self, data: dict[str, Any]) -> WorldMoment:
        reply = await self._command("reactor.rewind", **data)
        return msgspec.convert(reply["moment"], WorldMoment)
