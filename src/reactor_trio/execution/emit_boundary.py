"""`EmitBoundary`: where the world of author code that goes on by itself is whole, which is inside its `emit`.

The runtime makes no step of a `run()` or of a `start_session()`, so it cannot stop between two. But the code stands still
while it emits. With `Saves` the author promises that the code emits once a round, and reads the world again after each emit.
So the runtime takes a moment, and puts a world, while an emit is about to return.

A session that begins at a saved world has a first emit of its own beginning. Its frame is not shown, and the world is put
inside of it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import CommandError

T = TypeVar("T")

#: seconds for which a rewind waits for an emit to begin, and for other author code to end once an emit stands still
WITHIN: Final = 5.0


class EmitBoundary:
    """The emits of one session, on the model loop, and what must not run while its world is taken or put.

    Args:
        wakeup: of the session; set when the session is over.
        over: whether it is.
        step_ended: called when the frames of an emit are queued, with their number and whether the world is whole.
        resumes: called before an emit that has stood still returns: a rendering has more commands applied then.
        holds: whether the session begins at a saved world.

    Attributes:
        holds: the world at which the session begins is not there yet, so no frame is to be shown, and emits stand still.
    """

    def __init__(
        self, wakeup: RepeatedEvent, over: Callable[[], bool], step_ended: Callable[[int, bool], Awaitable[None]],
        resumes: Callable[[], Awaitable[None]], *, holds: bool = False,
    ) -> None:  # fmt: skip
        self.holds = holds
        self._wakeup = wakeup
        self._over = over
        self._step_ended = step_ended
        self._resumes = resumes
        #: emits that have begun; and of these, those that are kept from returning
        self._begun = self._standing = 0
        #: emits whose frames are queued, and whose moment is not kept yet
        self._ending = 0
        #: handlers, and calls of `on_frame`, that are in the middle of what they do
        self._handling = 0
        #: whether a rewind waits for an emit, and whether its world is being put
        self._wanted = self._putting = False
        self._changed = RepeatedEvent()

    @property
    def wanted(self) -> bool:
        """Whether a command waits for an emit to stand still."""
        return self._wanted

    @asynccontextmanager
    async def emitting(self, frames: int, stands: bool = True) -> AsyncGenerator[Callable[[], None], None]:
        """An emit of so many frames: at the end of the block keep the moment after them, and stand still for a put.

        Unless it `stands`: then it is one of a hook, for whose end the put waits.

        Gives what the block calls when the frames are queued: clients see them, and what they now ask for comes after the
        moment.
        """
        self._begun += 1
        ending = 0

        def queued() -> None:
            nonlocal ending
            ending = 1
            self._ending += 1

        try:
            try:
                yield queued
                if ending and frames and not self._over() and not self._putting:  # then it is an emit of `@restored`
                    await self._step_ended(frames, not self._handling and self._ending == 1)
            finally:
                self._ending -= ending
                self._changed.set()
            while (self._wanted or self.holds) and stands and not self._over():
                await self._stand()
                await self._resumes()
        finally:
            self._begun -= 1
            if self._wanted:
                self._wakeup.set()

    async def handle(self, handler: Callable[[], Awaitable[T]]) -> T:
        """Call a handler, or what calls one, when no moment is being taken and no world put."""
        while self._ending or self._putting or (self._wanted and self._standing):
            await self._changed.wait()
            if self._over():
                await trio.sleep_forever()  # the end of the session cancels it
        self._handling += 1
        try:
            return await handler()
        finally:
            self._handling -= 1
            if self._wanted:
                self._wakeup.set()

    @asynccontextmanager
    async def reached(self) -> AsyncGenerator[None, None]:
        """Keep an emit from returning during the block, in which no handler runs. For what `handle` calls.

        Raises CommandError if no emit begins in `WITHIN` seconds, or if a handler then goes on for as long; and SessionOver.
        """
        self._handling -= 1  # what calls this waits
        self._wanted = True
        self._wakeup.set()
        try:
            await self._until_reached()
            self._wanted, self._putting = False, True
            yield
            self.holds = False  # if it fails, the session ends, and shows nothing
        finally:
            self._wanted = self._putting = False
            self._handling += 1
            self._changed.set()

    def session_ends(self) -> None:
        """Let the emits go on that stand still: no world is put any more."""
        self._changed.set()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _until_reached(self) -> None:
        deadline, stood = trio.current_time() + WITHIN, False
        while not self._over() and (not self._standing or self._handling):
            if self._standing and not stood:
                deadline, stood = trio.current_time() + WITHIN, True
            if self._begun and not self._standing:  # it waits for room, or for a viewer
                await self._wakeup.wait()
            elif trio.current_time() < deadline:
                await self._wakeup.wait(deadline)
            elif self._standing:
                raise CommandError("restore_failed", f"on_frame() runs for {WITHIN:g} s; no world is put before it returns")
            else:
                raise CommandError("restore_failed", f"no emit() for {WITHIN:g} s; the world is put inside emit() only")
        if self._over():
            raise SessionOver

    async def _stand(self) -> None:
        """Stand still until the world is put. An emit that comes while it is put may be one of `@restored`: that goes on."""
        self._standing += 1
        self._wakeup.set()
        try:
            with trio.CancelScope(shield=True):  # the code after this emit must not run beside the put
                while ((self._wanted or self.holds) and not self._over()) or self._putting:
                    await self._changed.wait()
        finally:
            self._standing -= 1
